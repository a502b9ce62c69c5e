# Pressure Stall Information for Linux 6.12.  Verbs only: what they do is in scripts/, base/, vm/, bench/, demo/ and ci/.

FLAVOUR ?= psi
CONFIG ?= default
export FLAVOUR CONFIG KERNEL KSRC PATCH JOBS

.PHONY: help deps base tree kernel image demo shell check lint weight kunit selftests exactness fio pace alone kubernetes others waits mutations bench bench-check bench-native series refresh bisect-check other-bases kunit-tool storms scale fuzz faults models programs matrix tool deb deb-test autopkgtest rpm clean

help:
	@echo 'make demo       build a kernel with PSI, boot it, put it under load and watch /proc/pressure'
	@echo 'make check      run the tests for every change; the last line is the sum'
	@echo
	@echo 'make deps       install the Debian packages that the other verbs need (they do it themselves)'
	@echo 'make base       prepare the kernel without PSI that our series starts from'
	@echo 'make tree       make or update build/tree: the base, our patches and our files'
	@echo 'make kernel     build a kernel'
	@echo 'make image      the same; with make -s it prints the path of the bootable image and nothing else'
	@echo 'make shell      boot it with a shell'
	@echo 'make lint       checkpatch, sparse, W=1, coccicheck, kernel-doc, Sphinx, codespell, shellcheck, pyflakes'
	@echo 'make weight     how many lines, types, words and circles the kernel code has, beside seven files of the kernel'
	@echo 'make kunit      run the unit tests inside the kernel'
	@echo 'make selftests  the tests from user space: pressure files, cgroups, triggers, storms'
	@echo 'make fuzz       random texts and sequences against a model, new ones for 10 minutes (FUZZ="--minutes N --coverage")'
	@echo 'make faults     let each allocation fail once, on a kernel that can, and look for what is lost'
	@echo 'make models     all orders in which the lock-free protocols can run on a weak machine (MODEL="--break list": breaks one)'
	@echo 'make exactness  the exactness of the stock PSI and of ours: one table, one run (slow)'
	@echo 'make alone      how far off pressure run is about the time that a command takes alone (slow)'
	@echo 'make pace       a build that is too large for its machine, with pressure pace and without'
	@echo 'make kubernetes  what a pod at its cpu.max does to the pressure of its node, on the stock PSI and on ours'
	@echo 'make others     other people'\''s tests and benchmarks, without PSI, on stock and on ours: the same verdicts? (slow)'
	@echo 'make fio        the same job of fio in four ways, on the stock PSI and on ours: what it waited, and io pressure'
	@echo 'make waits      file systems and calls: for how long a task is blocked in them, and how much of it is io pressure'
	@echo 'make bench      what the stock PSI and ours cost, in instructions: one table, one run'
	@echo 'make bench-check  fail when ours costs 3 % more than bench/results.json says'
	@echo 'make bench-native  the same in ns, of the CPU of this machine with its caches (in User-Mode Linux)'
	@echo 'make mutations  break the kernel code in many small ways: does a test find each? (slow)'
	@echo 'make storms     the storms of the selftests, minutes each, on CPUs that run in parallel (slow)'
	@echo 'make scale      64 CPUs with 2,000 busy cgroups, 100,000 cgroups, 1,024 possible CPUs, 10,000 triggers (slow)'
	@echo 'make programs   systemd-oomd, oomd, atop and others of Debian 13 and testing on our kernel (slow)'
	@echo 'make matrix     build and boot many different kernels, with the tests that apply: a table (slow)'
	@echo 'make tool       build pressure(1) and libpsi, to build/psi-tool; make -C tools/psi install installs them'
	@echo 'make deb        Debian packages of the kernel and of pressure(1), in build/deb (CONFIG=debian-amd64: all drivers; slow)'
	@echo 'make rpm        source tarball and RPM packages of pressure(1) and libpsi, in build/rpm'
	@echo 'make deb-test   install them in Debian 12 and 13, and boot these with their own boot loader (RELEASE=trixie: one; slow)'
	@echo 'make autopkgtest  install those of the tool in chroots of both, and run their tests by autopkgtest (RELEASE=; slow)'
	@echo 'make series     write the series as mails for git am to build/series, in sets'
	@echo 'make refresh    take what was committed in build/tree back into the project'
	@echo 'make bisect-check  build and boot the kernel after each patch of the series, with PSI and without (slow)'
	@echo 'make other-bases  apply the series to other 6.12.y: packages of Debian, or SOURCES= (slow)'
	@echo 'make kunit-tool  the unit tests by tools/testing/kunit/kunit.py, in User-Mode Linux and in QEMU (slow)'
	@echo 'make clean      remove build/'
	@echo
	@echo 'FLAVOUR=psi     the kernel to build: psi (ours), none (without PSI), stock (untouched)'
	@echo 'CONFIG=default  its configuration, one of configs/list'
	@echo 'KERNEL=6.12     the kernel that the series is applied to: 6.12 or 7.3. What is made of 7.3 is in build/7.3'
	@echo 'KSRC=           a directory or tarball of Linux 6.12.y, in place of the Debian package linux-source-6.12'
	@echo 'PATCH=          for refresh: the patch that takes all edits in build/tree, and its new files'
	@echo 'CHECK= MODEL= MUTANT= STORM= SCALE= PROGRAM= MATRIX= BENCH= STEP= ARCHITECTURES='
	@echo '                words for ci/check, bench/* and, of ci/slow, models, mutations, storms, scale, programs, matrix,'
	@echo '                bisect-check, kunit-tool'
	@echo 'JOBS=           how many compilers to run at once; one per CPU when unset'
	@echo 'PSI_CACHE=      where sources and compiled objects are kept (~/.cache/psi-linux; safe to delete)'

deps:
	@scripts/deps

base: deps
	@base/prepare

tree: deps
	@scripts/tree

kernel image: deps
	@scripts/kernel

demo: deps
	@demo/run

shell: deps
	@vm/shell

check: deps
	@ci/check $(CHECK)

lint: deps
	@ci/lint

weight: deps
	@ci/weight

kunit: deps
	@ci/kunit

selftests: deps
	@ci/selftests

fuzz: deps
	@ci/slow/fuzz $(FUZZ)

faults: deps
	@CONFIG=faults ci/selftests fault

models: deps
	@ci/slow/models $(MODEL)

series: deps
	@scripts/series

refresh: deps
	@scripts/refresh

exactness: deps
	@ci/slow/exactness

fio: deps
	@ci/slow/fio

pace: deps
	@ci/slow/pace

alone: deps
	@ci/slow/alone

kubernetes: deps
	@ci/slow/kubernetes

others: deps
	@ci/slow/others
	@ci/slow/others-bench

mutations: deps
	@ci/slow/mutations $(MUTANT)

storms: deps
	@ci/slow/storms $(STORM)

scale: deps
	@ci/slow/scale $(SCALE)

programs: deps
	@ci/slow/programs $(PROGRAM)

matrix: deps
	@ci/slow/matrix $(MATRIX)

waits: deps
	@ci/slow/waits

bench: deps
	@bench/run $(BENCH)

bench-check: deps
	@bench/run --check $(BENCH)

bench-native: deps
	@bench/native $(BENCH)

bisect-check: deps
	@ci/slow/bisect-check $(STEP)

other-bases: deps
	@ci/slow/other-bases $(SOURCES)

kunit-tool: deps
	@ci/slow/kunit-tool $(ARCHITECTURES)

# Needs a C compiler, and nothing else that deps installs.
tool:
	@$(MAKE) -s -C tools/psi O=$(CURDIR)/build/psi-tool
	@echo build/psi-tool/pressure

deb: deps
	@scripts/deb

rpm: deps
	@scripts/rpm

deb-test: deps
	@ci/slow/deb-test $(RELEASE)

autopkgtest:
	@ci/slow/autopkgtest $(RELEASE)

clean:
	@rm -rf build
