package main

// machine is a machine as some users have it.
type machine struct {
	name     string
	suite    string   // Debian release
	packages []string // in addition to base
	files    map[string]string
	memory   int    // MiB
	prefix   string // how a command becomes root; "" if root runs all
}

// base is what every machine has: a kernel, systemd, and the contents of a minimal
// installation.
var base = []string{"linux-image-cloud-amd64", "systemd-sysv", "udev", "dbus", "kmod", "iproute2", "procps", "mount", "e2fsprogs", "nftables"}

// tmpOf returns a unit that mounts /tmp as a file system in memory of this size.
func tmpOf(size string) map[string]string {
	return map[string]string{"/etc/systemd/system/tmp.mount": "[Mount]\nWhat=tmpfs\nWhere=/tmp\nType=tmpfs\nOptions=mode=1777,size=" + size + "\n",
		"/etc/systemd/system/local-fs.target.d/tmp.conf": "[Unit]\nWants=tmp.mount\n"}
}

// machines lists all machines, with cgroup v2 only and no swap, as in Debian.
var machines = []machine{
	{name: "debian12", suite: "bookworm", memory: 7168},
	{name: "debian13", suite: "trixie", memory: 7168},
	{name: "testing", suite: "forky", memory: 7168},
	// The host's own containerd and firewall, which must stay unchanged, and AppArmor's
	// profiles in force.
	{name: "neighbours", suite: "trixie", memory: 7168, packages: []string{"containerd", "apparmor", "apparmor-profiles"},
		files: map[string]string{"/etc/nftables.conf": "#!/usr/sbin/nft -f\nflush ruleset\ntable inet filter {\n" +
			"\tchain input { type filter hook input priority 0; policy drop; iif lo accept; ct state established,related accept; }\n" +
			"\tchain forward { type filter hook forward priority 0; policy drop; }\n}\n",
			"/etc/systemd/system/multi-user.target.d/firewall.conf": "[Unit]\nWants=nftables.service\n"}},
	{name: "sudo", suite: "bookworm", memory: 7168, packages: []string{"sudo"}, prefix: "runuser -u someone -- sudo",
		files: map[string]string{"/etc/sudoers.d/someone": "someone ALL=(ALL) NOPASSWD: ALL\n"}},
	{name: "small-tmp", suite: "trixie", memory: 5120, files: tmpOf("1G")},
}
