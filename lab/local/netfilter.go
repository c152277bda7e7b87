package local

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// extension is a match or a target of iptables.
type extension struct {
	name   string
	target bool
}

// ambientExtensions are those in the rules of the node agent of an ambient mesh, in the
// pods' networks and in the node's. See istio's cni/pkg/iptables, AppendInpodRules and
// AppendHostRules.
var ambientExtensions = []extension{
	{"set", false}, {"owner", false}, {"mark", false}, {"connmark", false}, {"tcp", false}, {"udp", false},
	{"CONNMARK", true}, {"CT", true}, {"REDIRECT", true}, {"SNAT", true},
}

// sidecarExtensions are those in the rules that lead a pod's connections to its sidecar.
var sidecarExtensions = []extension{{"owner", false}, {"tcp", false}, {"REDIRECT", true}}

// ambientModules have these, and sets of addresses, where they are no part of the kernel.
const ambientModules = "ip_set ip_set_hash_ip xt_set nft_compat xt_owner xt_mark xt_connmark xt_CT xt_REDIRECT xt_nat"

// tryAmbient tries what the node agent of an ambient mesh does in the networks of nodes
// and pods: sets of addresses for the kubelet's probes, and the extensions of its rules.
func tryAmbient(string) error {
	var all []error
	for name, family := range map[string]uint8{"meshtrial-try": unix.AF_INET, "meshtrial-try6": unix.AF_INET6} {
		if err := netlink.IpsetCreate(name, "hash:ip", netlink.IpsetCreateOptions{Family: family}); err != nil {
			all = append(all, fmt.Errorf("the kernel makes no ipset of addresses, which an ambient mesh needs: %w", err))
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

// tryExtension asks the kernel for a match or a target, as iptables does when it puts
// one into nftables.
func tryExtension(e extension) error {
	kind, what := uint32(0), "match"
	if e.target {
		kind, what = 1, "target"
	}
	var attributes []byte
	attributes = appendAttribute(attributes, unix.NFTA_COMPAT_NAME, append([]byte(e.name), 0))
	attributes = appendAttribute(attributes, unix.NFTA_COMPAT_REV, binary.BigEndian.AppendUint32(nil, 0))
	attributes = appendAttribute(attributes, unix.NFTA_COMPAT_TYPE, binary.BigEndian.AppendUint32(nil, kind))
	err := askNetfilter(unix.NFNL_SUBSYS_NFT_COMPAT<<8, unix.AF_INET, attributes)
	switch {
	case err == nil, errors.Is(err, unix.EPROTONOSUPPORT): // it has another revision
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the kernel has no %s %q of iptables", what, e.name)
	}
	return fmt.Errorf("ask for the %s %q of iptables in nftables: %w", what, e.name, err)
}

// askNetfilter sends a request to the kernel's packet filter, and returns the error of its
// answer. The netlink library would wait for an acknowledgement that does not come.
func askNetfilter(kind uint16, family uint8, attributes []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("the kernel has no netfilter: %w", err)
	}
	defer unix.Close(fd)
	// A header (length, type, flags, sequence, port), then nfgenmsg.
	request := make([]byte, 20, 20+len(attributes))
	request = append(request, attributes...)
	order := binary.NativeEndian
	order.PutUint32(request[0:], uint32(len(request)))
	order.PutUint16(request[4:], kind)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST)
	order.PutUint32(request[8:], 1)
	request[16] = family
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n >= 20 && order.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		if code := int32(order.Uint32(answer[16:])); code != 0 {
			return unix.Errno(-code)
		}
	}
	return nil
}

// appendAttribute appends a netlink attribute: its length and type, then its value, padded
// to four bytes.
func appendAttribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(4+len(value)))
	to = binary.NativeEndian.AppendUint16(to, kind)
	to = append(to, value...)
	for len(to)%4 != 0 {
		to = append(to, 0)
	}
	return to
}
