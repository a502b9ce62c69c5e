# SPDX-License-Identifier: GPL-2.0
"""What the tests that run as root in a whole Debian have in common."""
import pathlib
import re
import subprocess
import time
import urllib.request

from tap import check

RESOURCES = ("cpu", "memory", "io")
UNITS = pathlib.Path("/etc/systemd/system")

# Above memory.high, with nothing that could be reclaimed: each page takes longer than the one before.
HELD_BACK = """\
import mmap
memory = mmap.mmap(-1, 512 << 20, mmap.MAP_PRIVATE)
for page in range(0, len(memory), mmap.PAGESIZE):
    memory[page] = 1
"""


def said(*command, status=0):
    """What a command says; it must end with that status, or with any if it is None."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    check(status in (done.returncode, None), f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def until(done, seconds):
    """Wait for something; whether it came."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def exported():
    """What prometheus-node-exporter exports of pressure, {name: value in us}; its collector must report success."""
    def scrape():
        try:
            with urllib.request.urlopen("http://127.0.0.1:9100/metrics") as answer:
                return answer.read().decode()
        except OSError:
            return ""
    check(until(scrape, 60), "it does not answer")
    text = scrape()
    # Since 1.9 the collector wants irq as well: configs/debian.config.
    check('node_scrape_collector_success{collector="pressure"} 1' in text, f"its collector reports no success:\n{text}")
    found = re.findall(r"^node_pressure_(\w+)_seconds_total (\S+)$", text, re.MULTILINE)
    return {name: float(seconds) * 1e6 for name, seconds in found}


def unit(name, text):
    (UNITS / name).write_text(text)


def oomd_is_quick():
    """systemd-oomd acts after 2 s of pressure."""
    drop_in = pathlib.Path("/etc/systemd/oomd.conf.d/test.conf")
    drop_in.parent.mkdir(exist_ok=True)
    drop_in.write_text("[OOM]\nDefaultMemoryPressureDurationSec=2s\n")
