#!/bin/sh
# systemd-machine.sh ROOT UNITS PROGRAM: a root with these units and systemd as its first process.
#
# Runs in new mount, PID, network, cgroup, UTS and IPC namespaces. All writable folders are new and empty, /usr and the
# kernel's settings are read-only, and the only units are those of the folder UNITS: the settings of this machine do not
# change.
set -e
root=$1 units=$2 program=$3
mount --make-rprivate /
mount -t tmpfs -o mode=755 anabranch-units "$root"
cd "$root"
mkdir -p usr etc/anabranch run tmp var root proc sys dev units old
mount --bind /usr usr
mount -o remount,bind,ro usr
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$name" ]; then
    cp -P "/$name" .
  elif [ -d "/$name" ]; then
    mkdir "$name" && mount --bind "/$name" "$name" && mount -o remount,bind,ro "$name"
  fi
done
mount -t tmpfs -o mode=755 tmpfs usr/local/sbin
install -m 755 "$program" usr/local/sbin/anabranch-proxy
install -m 644 "$units"/*.service "$units"/*.target units
for folder in "$units"/*.d; do cp -r "$folder" units; done
install -m 600 "$units"/*.toml etc/anabranch
echo root:x:0:0::/root:/bin/sh > etc/passwd
echo root:x:0: > etc/group
echo 'hosts: files' > etc/nsswitch.conf
echo 00000000000000000000000000000001 > etc/machine-id
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for name in full null random tty urandom zero; do
  touch "dev/$name" && mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/console && mount --bind dev/null dev/console
ip link set lo up
for name in lan0 wlan0 wwan0; do
  ip tuntap add dev "$name" mode tap
  ip link set "$name" up
done
ip address add 192.0.2.1/24 dev lan0
ip address add 198.51.100.1/24 dev wlan0
ip address add 203.0.113.1/24 dev wwan0
pivot_root . old
umount -l old
# Credentials of units are mounted in one namespace for another. The mounts of this machine are private, so they stay as
# they are.
mount --make-rshared /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=anabranch SYSTEMD_UNIT_PATH=/units \
  SYSTEMD_GENERATOR_PATH=/units SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/units \
  /lib/systemd/systemd --system --unit=machine.target --show-status=no --log-target=null
