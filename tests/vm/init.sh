#!/bin/busybox sh
# The guest's first process: the host's files below a layer that is thrown away, one command, the end.
bb=/bin/busybox
over=/root

fail() {
  echo "init: $*"
  $bb reboot -f
}

$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs dev /dev
for module in /modules-*; do
  $bb insmod "$module" || fail "cannot load $module"
done

share() { $bb mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2"; }
share host /lower ro,cache=loose || fail "no files of the host"
share share /share cache=none || fail "no folder to share"
$bb mount -t tmpfs upper /upper
$bb mkdir /upper/files /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work over $over ||
  fail "no layer over the files of the host"

for folder in proc sys dev; do
  $bb mount --move /$folder $over/$folder
done
for folder in run dev/shm; do
  $bb mkdir -p $over/$folder
  $bb mount -t tmpfs "$folder" $over/$folder
done
$bb mkdir -p $over/run/share
$bb mount --move /share $over/run/share
$bb mount -t cgroup2 cgroup $over/sys/fs/cgroup
# The guest is no container, whatever the host is.
$bb rm -f $over/.dockerenv

# shellcheck disable=SC2016  # for the shell inside
$bb chroot $over /bin/sh -c 'cd /run/share && exec >said 2>&1 && . ./command'
echo $? >$over/run/share/status
$bb sync
$bb reboot -f
