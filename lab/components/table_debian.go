package components

// debianPackage is a package at the version it was tried at. Its digest is
// that of Debian 12 on x86-64; another release of Debian, or a later update,
// serves another version, whose digest its signed index vouches for and the
// cache entry records.
type debianPackage struct {
	name, version, sha256 string

	purpose  string
	as       string   // name in Table, if not the package's
	programs []string // that Set.Program finds
	host     bool     // libraries the host's programs load from the cache
	image    bool     // unpacked into the proxy's image
}

func (p debianPackage) component() string {
	if p.as != "" {
		return p.as
	}
	return p.name
}

// debianPackages is ordered by what a reader looks for: programs first.
var debianPackages = []debianPackage{
	{name: "containerd", version: "1.6.20~ds1-1+deb12u3", sha256: "8669d264eeb0fcdb4a0b1ba436ab88ec5dafde4a66e1278ec279d830db4c2216",
		purpose: "runs the node's containers", programs: []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
	{name: "runc", version: "1.1.5+ds1-1+deb12u1", sha256: "a00351f8c0318de0b424ecf5cd0fdb69880a89f3511cae4f6fff7de3e57881c5",
		purpose: "starts a container", programs: []string{"runc"}},
	{name: "containernetworking-plugins", version: "1.1.1+ds1-3+b5", sha256: "4cac8143474d1249b19f7b0e80b8d0daaa6dfdaa8bd514bc468d38d4a108099f",
		as: "cni", purpose: "the network of the node's pods"},
	{name: "nftables", version: "1.0.6-2+deb12u2", sha256: "966ff20ce58c17163a771c02ddbca264291408f94c512bd85dd18da0ebdbe88c",
		purpose: "kube-proxy's rules, and a sidecar's in nftables mode", programs: []string{"nft"}, image: true},
	{name: "iptables", version: "1.8.9-2", sha256: "2928d3ca6ca8a3dc3f423f6752822b1f3614a5ba609ff7806bcba4449ffe90e1",
		purpose: "redirects a pod's traffic to its sidecar", image: true},
	{name: "ca-certificates", version: "20250419~deb12u2", sha256: "b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b",
		purpose: "the authorities Istio's images trust"},
	{name: "libc6", version: "2.36-9+deb12u14", sha256: "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
		purpose: "the proxy's image", image: true},
	{name: "libgcc-s1", version: "12.2.0-14+deb12u1", sha256: "3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7",
		purpose: "the proxy's image", image: true},
	{name: "libseccomp2", version: "2.5.4-1+deb12u1", sha256: "108fe67957ca7cf9ba51d801118a1b37d404bea7b6e365025cd00779e9eca38d",
		purpose: "runc's filter of system calls", host: true},
	{name: "libnftables1", version: "1.0.6-2+deb12u2", sha256: "3a8223f9bfba99d97bf25296ac83de307ab036e1df63e5965f88809266851947",
		purpose: "a library of nft", host: true, image: true},
	{name: "libnftnl11", version: "1.2.4-2", sha256: "9e619e1470a1915264e906020f3bfc046fd8458043b1342686d997b5078213af",
		purpose: "a library of nft and iptables", host: true, image: true},
	{name: "libmnl0", version: "1.0.4-3", sha256: "4581f42e3373cb72f9ea4e88163b17873afca614a6c6f54637e95aa75983ea7c",
		purpose: "a library of nft and iptables", host: true, image: true},
	{name: "libxtables12", version: "1.8.9-2", sha256: "cb841d66950a43af4a398625313d2f3da9065299c9738538de6c2c3495857040",
		purpose: "a library of nft and iptables", host: true, image: true},
	{name: "libip4tc2", version: "1.8.9-2", sha256: "f2c48b367f9ec13f9aa577e7ccf81b371ce5d5fe22dddf9d7aa99f1e0bb7cfc4",
		purpose: "a library of iptables", image: true},
	{name: "libip6tc2", version: "1.8.9-2", sha256: "be88db3dfa2fe3345ea343207f7c75345602686121e579023d021c348b9b4f4d",
		purpose: "a library of iptables", image: true},
	{name: "libnetfilter-conntrack3", version: "1.0.9-3", sha256: "65f1539238f60fcc85d115acd640474f45c77bfddcf402eb7d75965a783c2bc8",
		purpose: "a library of iptables", image: true},
	{name: "libnfnetlink0", version: "1.0.2-2", sha256: "ae5cbba417ea48f34c1f72c27e8146a81f20614c1296bca2cd7234c8215fddcc",
		purpose: "a library of iptables", image: true},
	{name: "libjansson4", version: "2.14-2", sha256: "3fc9742f9f1a37bcb9931df6074b4d1483419ef832ad5349f47323e75fc27864",
		purpose: "a library of nft", host: true, image: true},
	{name: "libgmp10", version: "2:6.2.1+dfsg1-1.1", sha256: "187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd",
		purpose: "a library of nft", host: true, image: true},
	{name: "libedit2", version: "3.1-20221030-2", sha256: "1cf14abf2716d3279db12d0657a5737cf70074a1e71d3bdf73206625e3c89ce6",
		purpose: "a library of nft", host: true, image: true},
	{name: "libbsd0", version: "0.11.7-2", sha256: "bb31cc8b40f962a85b2cec970f7f79cc704a1ae4bad24257a822055404b2c60b",
		purpose: "a library of nft", host: true, image: true},
	{name: "libmd0", version: "1.0.4-2", sha256: "03539fd30c509e27101d13a56e52eda9062bdf1aefe337c07ab56def25a13eab",
		purpose: "a library of nft", host: true, image: true},
	{name: "libtinfo6", version: "6.4-4", sha256: "072d908f38f51090ca28ca5afa3b46b2957dc61fe35094c0b851426859a49a51",
		purpose: "a library of nft", host: true, image: true},
}
