# SPDX-License-Identifier: GPL-2.0
"""File systems of a Debian with some packages: made once, and kept in PSI_CACHE/debian."""
import fcntl
import hashlib
import lzma
import os
import pathlib
import subprocess
import sys
import tarfile

CACHE = pathlib.Path(os.environ.get("PSI_CACHE") or pathlib.Path.home() / ".cache/psi-linux") / "debian"
# What no test looks at.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# For a script of a Row: the disk of drive(), or its partition $partition, becomes $root; with $copy, its copy on that disk.
MOUNT = """\
for disk in /sys/block/vd*; do
	[ "$(cat $disk/serial)" != root ] || break
done
disk=/dev/${disk##*/}
[ -z "$copy" ] || { dd if=$disk of=$copy bs=1M && disk=$copy; } || exit
root=/tmp/root
mkdir $root
mount -t ext4 $disk$partition $root || exit
for directory in proc sys dev; do
	mount --rbind /$directory $root/$directory || exit
done
mount -t tmpfs tmpfs $root/run
"""


def image(release, packages, megabytes, *options, features=()):
    """The image of a file system with these packages and what they need.

    OPTIONS are those of mmdebstrap; tune2fs gives the file system its FEATURES.
    """
    recipe = repr((release, packages, megabytes, options, features, LEFT_OUT))
    path = CACHE / f"{release}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.ext2"
    tar, half, log = (path.with_suffix(suffix) for suffix in (".tar", ".new", ".log"))
    # The lists of testing expire after a week, and a mirror may be older; the image is kept for longer anyway.
    commands = [["mmdebstrap", "--variant=apt", '--aptopt=Acquire::Check-Valid-Until "false"', f"--include={','.join(packages)}",
                 *(f"--dpkgopt=path-exclude={name}" for name in LEFT_OUT), *options, release, tar],
                ["genext2fs", "--block-size", "4096", "--size-in-blocks", megabytes * 256, "--number-of-inodes", 100000,
                 "--tarball", tar, half]]
    if features:
        commands.append(["/sbin/tune2fs", *features, half])
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_file():
            return path
        print(f"downloading {' '.join(packages)} and what they need, for {path}", flush=True)
        with open(log, "w", encoding="utf-8") as said:
            for command in commands:
                if subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                  check=False).returncode:
                    sys.exit(f"{command[0]} failed: see {log}; it needs a Debian mirror and 5 GB of disk")
        tar.unlink()
        half.rename(path)
    return path


# What vm/guest/init loads so that vm/run works, and what disks of null_blk want. Each needs only what comes before it.
MODULES = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_console",
           "virtio_blk", "configfs", "null_blk")


def kernel(release, directory):
    """Debian's own kernel for virtual machines in DIRECTORY: (image, files for the payload of a Row)."""
    directory.mkdir(parents=True, exist_ok=True)
    tar = directory / "kernel.tar"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=linux-image-cloud-amd64", release, tar], check=True)
    found, image = {}, directory / "vmlinuz"
    with tarfile.open(tar) as packages:
        for member in packages:
            name = pathlib.Path(member.name).name
            if name.startswith("vmlinuz-"):
                image.write_bytes(packages.extractfile(member).read())
            elif (module := name.partition(".ko")[0]) in MODULES and ".ko" in name:
                data = packages.extractfile(member).read()
                found[module] = directory / f"{module}.ko"
                found[module].write_bytes(lzma.decompress(data) if name.endswith(".xz") else data)
    (directory / "modules").write_text("".join(f"{name}.ko\n" for name in MODULES if name in found))
    return image, [directory / "modules", *found.values()]


def drive(path, *more):
    """Options of vm/run for the disk of the guest whose serial number is "root"."""
    file = ",".join(["if=none,id=root,format=raw", *more, f"file={str(path).replace(',', ',,')}"])
    return "--qemu=-drive", f"--qemu={file}", "--qemu=-device", "--qemu=virtio-blk-pci,drive=root,serial=root"
