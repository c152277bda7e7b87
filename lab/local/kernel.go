package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/thread"
)

// feature is a part of the kernel that a lab uses. It is tried rather than looked up,
// because using it makes the kernel load its module.
type feature struct {
	name    string // of the line that reports it
	works   string // description of what was tried
	modules string // modules that provide it, unless it is built in
	// try uses the feature, in mount and network namespaces that end with the call. dir is
	// an empty folder on the cache's file system.
	try func(dir string) error
}

// features lists what every lab needs.
var features = []feature{
	{"overlayfs", "can be mounted on the cache folder's file system", "overlay", tryOverlay},
	{"veth links", "can be created", "veth", tryVeth},
	{"nftables", "accepts the rules of Services", "nf_tables nft_chain_nat nft_numgen nft_masq nft_fib_ipv4 nft_ct nft_reject_ipv4", tryServiceRules},
	{"iptables", "has the extensions that redirect to sidecars", "nft_compat xt_owner xt_REDIRECT xt_tcpudp", func(string) error { return tryExtensions(sidecarExtensions) }},
}

// ambientFeature is what an ambient mesh needs in addition.
var ambientFeature = feature{"ambient mesh", "has ipsets and the extensions that its node agent uses", ambientModules, tryAmbient}

// mend returns advice on how to get a feature that does not work.
func (f feature) mend() string {
	return "modprobe -a " + f.modules + " shows what is missing (apt-get install kmod); if the modules do not exist, use another kernel, such as a distribution's"
}

// tryFeature tries one feature on a folder's file system.
func tryFeature(f feature, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	return thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		return f.try(scratch)
	})
}

func tryOverlay(dir string) error {
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	merged := filepath.Join(dir, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	switch err := unix.Mount("overlay", merged, "overlay", 0, options); {
	case errors.Is(err, unix.ENODEV):
		return errors.New("the kernel has no overlay file system, not even as a module")
	case err != nil:
		return overlayError(filepath.Dir(dir), onOverlay(dir), err)
	}
	err := os.WriteFile(filepath.Join(merged, "file"), nil, 0o600)
	return errors.Join(err, unix.Unmount(merged, 0))
}

func overlayError(dir string, nested bool, err error) error {
	if nested {
		return errs.WithHint(fmt.Errorf("%s is itself on an overlay, and overlays cannot be stacked there: %w", dir, err), "%s", volume)
	}
	return fmt.Errorf("overlayfs does not work on the file system of %s: %w", dir, err)
}

// onOverlay reports whether a folder is on an overlay, as a container's root is.
func onOverlay(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

func tryVeth(string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "meshtrial-try"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "meshtrial-peer"}); err != nil {
		return fmt.Errorf("veth links cannot be created: %w", err)
	}
	return nil
}

// tryServiceRules creates the kinds of rules that kube-proxy creates for Services.
func tryServiceRules(string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("the kernel has no netfilter: %w", err)
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "meshtrial-try"})
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: priority})
	}
	filter := chain("filter", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables accepts no table: %w", err)
	}
	to := chain("to", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	from := chain("from", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables has no address translation (chains of type nat): %w", err)
	}
	var all []error
	for _, r := range []struct {
		what  string
		chain *nftables.Chain
		rule  []expr.Any
	}{
		{"numgen", filter, []expr.Any{&expr.Numgen{Register: 1, Modulus: 2, Type: unix.NFT_NG_RANDOM}}},
		{"fib", to, []expr.Any{&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true}}},
		{"ct", filter, []expr.Any{&expr.Ct{Register: 1, Key: expr.CtKeySTATE}}},
		{"reject", filter, []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3}}},
		{"masquerade", from, []expr.Any{&expr.Masq{FullyRandom: true}}},
		{"dnat", to, []expr.Any{&expr.Immediate{Register: 1, Data: []byte{192, 0, 2, 1}}, &expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}}},
	} {
		c.AddRule(&nftables.Rule{Table: table, Chain: r.chain, Exprs: r.rule})
		if err := c.Flush(); err != nil {
			all = append(all, fmt.Errorf("nftables accepts no rule with %s: %w", r.what, err))
		}
	}
	return errors.Join(all...)
}

// extension is a match or target of iptables.
type extension struct {
	name   string
	target bool
}

// ambientExtensions are the extensions in the rules of an ambient mesh's node agent, in
// the pods' networks and in the node's. See istio's cni/pkg/iptables, AppendInpodRules and
// AppendHostRules.
var ambientExtensions = []extension{
	{"set", false}, {"owner", false}, {"mark", false}, {"connmark", false}, {"tcp", false}, {"udp", false},
	{"CONNMARK", true}, {"CT", true}, {"REDIRECT", true}, {"SNAT", true},
}

// sidecarExtensions are the extensions in the rules that redirect a pod's connections to
// its sidecar.
var sidecarExtensions = []extension{{"owner", false}, {"tcp", false}, {"REDIRECT", true}}

// ambientModules provide these extensions and address sets, unless they are built into the
// kernel.
const ambientModules = "ip_set ip_set_hash_ip xt_set nft_compat xt_owner xt_mark xt_connmark xt_CT xt_REDIRECT xt_nat"

// tryAmbient tries what the node agent of an ambient mesh does in the networks of nodes
// and pods: address sets for the kubelet's probes, and the extensions of its rules.
func tryAmbient(string) error {
	var all []error
	for name, family := range map[string]uint8{"meshtrial-try": unix.AF_INET, "meshtrial-try6": unix.AF_INET6} {
		if err := netlink.IpsetCreate(name, "hash:ip", netlink.IpsetCreateOptions{Family: family}); err != nil {
			all = append(all, fmt.Errorf("the kernel cannot create an ipset of addresses, which an ambient mesh needs: %w", err))
			break
		}
	}
	return errors.Join(append(all, tryExtensions(ambientExtensions))...)
}

func tryExtensions(extensions []extension) error {
	var all []error
	for _, e := range extensions {
		all = append(all, tryExtension(e))
	}
	return errors.Join(all...)
}

// tryExtension asks the kernel for a match or target, as iptables does when it adds one to
// nftables.
func tryExtension(e extension) error {
	kind, what := uint32(0), "match"
	if e.target {
		kind, what = 1, "target"
	}
	// Without an acknowledgement the library would wait for the end of a list, which the kernel does not send.
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFT_COMPAT<<8, unix.NLM_F_ACK)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET})
	request.AddData(nl.NewRtAttr(unix.NFTA_COMPAT_NAME, nl.ZeroTerminated(e.name)))
	request.AddData(nl.NewRtAttr(unix.NFTA_COMPAT_REV, nl.BEUint32Attr(0)))
	request.AddData(nl.NewRtAttr(unix.NFTA_COMPAT_TYPE, nl.BEUint32Attr(kind)))
	_, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case err == nil, errors.Is(err, unix.EPROTONOSUPPORT): // it has another revision
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the kernel has no %s %q of iptables", what, e.name)
	}
	return fmt.Errorf("ask for the %s %q of iptables in nftables: %w", what, e.name, err)
}
