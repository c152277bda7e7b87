#!/bin/bash
# Tries the program as a user of this machine would. Each step is between two marks:
# "@@ begin NAME" and "@@ end CODE SECONDS".
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb
read -r -a prefix </opt/meshtrial/prefix
cd /root

step() {
	local name=$1 began=$SECONDS code=0
	shift
	echo "@@ begin $name"
	"$@" </dev/null 2>&1 || code=$?
	echo "@@ end $code $((SECONDS - began))"
}

mt() { "${prefix[@]}" meshtrial "$@"; }

# What a lab could leave behind, and what it must leave alone.
things() {
	echo "links"; ip -brief link | awk '{print $1}' | sort
	echo "routes"; ip route
	echo "namespaces"; ip netns list
	echo "mounts"; awk '{print $5}' /proc/self/mountinfo | grep -v '^/run/credentials/' | sort # systemd's, of units that start meanwhile
	echo "rules"; nft list ruleset
	echo "cgroups"; find /sys/fs/cgroup -type d -name '*meshtrial*' | sort
	echo "processes"; ps -eo comm= | grep -E 'kube|etcd|containerd|istiod|envoy|meshtrial|pilot' | sort
	echo "containerd"; systemctl show -p MainPID --value containerd.service
}

echo "$(. /etc/os-release; echo "$PRETTY_NAME"), kernel $(uname -r), cgroups $(stat -fc %T /sys/fs/cgroup), $(nproc) CPUs"
things >/var/tmp/before
step doctor mt doctor
step "lab up" mt lab up
step "lab status" mt lab status
for kind in dataplane controlplane resilience; do
	step "run $kind" mt run /opt/meshtrial/$kind.yaml --out /root/runs/$kind
done
step report mt report /root/runs/dataplane
step "lab down" mt lab down
sleep 2 # links of namespaces that are gone go late
things >/var/tmp/after
step "nothing left" diff /var/tmp/before /var/tmp/after
