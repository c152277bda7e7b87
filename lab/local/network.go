package local

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
)

// nodeName is the name of a single node, and the host name inside. With several nodes a
// number is appended.
const nodeName = "lab"

// nodeInterface is the node's end of the link to the host.
const nodeInterface = "eth0"

// network holds a lab's address ranges. The host reaches services and pods through the
// lab's end of the link.
type network struct {
	Host     netip.Prefix `json:"host"`           // the host's end of the link
	Node     netip.Prefix `json:"node"`           // the lab's end: the one node's, or the control plane's
	Pods     netip.Prefix `json:"pods"`           // pod addresses
	Services netip.Prefix `json:"services"`       // cluster IPs
	Nodes    netip.Prefix `json:"nodes,omitzero"` // addresses of several nodes
}

// apiService returns the cluster IP of the API server: the first of the range.
func (n network) apiService() netip.Addr { return n.Services.Masked().Addr().Next() }

// dns returns the cluster IP of the DNS service: the tenth of the range.
func (n network) dns() netip.Addr {
	a := n.Services.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	return a
}

func (n network) apiURL() string { return "https://" + n.Node.Addr().String() + ":6443" }

// hostInterface names the host's end of the link to the lab id. Linux limits names to 15
// bytes.
func hostInterface(id string) string { return "mtrial-" + id }

// chooseNetwork picks ranges that do not overlap the taken ones: the usual ranges of
// Kubernetes if they are free, otherwise the next ones.
func chooseNetwork(taken []netip.Prefix, nodes int) (network, error) {
	free := func(p netip.Prefix) bool {
		for _, t := range taken {
			if t.Overlaps(p) {
				return false
			}
		}
		return true
	}
	pick := func(what string, first, count int, make func(int) netip.Prefix) (netip.Prefix, error) {
		for i := first; i < first+count; i++ {
			if p := make(i); free(p) {
				taken = append(taken, p)
				return p, nil
			}
		}
		return netip.Prefix{}, fmt.Errorf("no free address range for %s: %s to %s all overlap addresses or routes of this machine", what, make(first), make(first+count-1))
	}
	var n network
	link, err := pick("the link to the lab", 0, 256*64, func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 254, byte(77 + i/64), byte(i % 64 * 4)}), 30)
	})
	if err != nil {
		return n, err
	}
	n.Host = netip.PrefixFrom(link.Addr().Next(), 30)
	n.Node = netip.PrefixFrom(link.Addr().Next().Next(), 30)
	second := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)
	}
	if n.Services, err = pick("services", 96, 64, second); err != nil {
		return n, err
	}
	if n.Pods, err = pick("pods", 160, 64, second); err != nil || nodes < 2 {
		return n, err
	}
	n.Nodes, err = pick("nodes", 0, 256, func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 253, byte(i), 0}), 24)
	})
	return n, err
}

// takenRanges lists this machine's addresses and routes, without default routes.
func takenRanges() ([]netip.Prefix, error) {
	var taken []netip.Prefix
	add := func(n *net.IPNet) {
		if n == nil {
			return
		}
		a, ok := netip.AddrFromSlice(n.IP)
		ones, _ := n.Mask.Size()
		if a = a.Unmap(); ok && a.Is4() && ones > 0 {
			taken = append(taken, netip.PrefixFrom(a, ones).Masked())
		}
	}
	addrs, err := listAll(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	for _, a := range addrs {
		add(a.IPNet)
	}
	routes, err := listAll(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list the machine's routes: %w", err)
	}
	for _, r := range routes {
		add(r.Dst)
	}
	return taken, nil
}

// listAll retries a listing that changed underneath it as labs come and go.
func listAll[T any](list func() ([]T, error)) (all []T, err error) {
	for range 100 {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), 32)}
}

// linkInto makes a link from here to nodeInterface in the network namespace of the
// process pid. Our end has no IPv6, as that would have to be waited for.
func linkInto(name string, pid int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: nodeInterface, PeerNamespace: netlink.NsPid(pid)}); err != nil {
		return nil, fmt.Errorf("create the interface %s: %w", name, err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	return link, nil
}

// linkHost makes the link between the host and the network namespace of the process pid,
// and the host's routes into the lab.
func linkHost(r *record, pid int) error {
	host, err := linkInto(r.HostInterface, pid)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(host, &netlink.Addr{IPNet: ipNet(r.Network.Host)}); err != nil {
		return fmt.Errorf("give %s its address %s: %w", r.HostInterface, r.Network.Host, err)
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return fmt.Errorf("bring up %s: %w", r.HostInterface, err)
	}
	for _, to := range []netip.Prefix{r.Network.Services, r.Network.Pods, r.Network.Nodes} {
		if !to.IsValid() {
			continue
		}
		route := &netlink.Route{LinkIndex: host.Attrs().Index, Dst: ipNet(to.Masked()), Gw: net.IP(r.Network.Node.Addr().AsSlice())}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route %s through %s: %w", to, r.HostInterface, err)
		}
	}
	return nil
}

// unlinkHost removes the host's end of the link, and with it its routes and its peer. A
// missing link is not an error.
func unlinkHost(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	var none netlink.LinkNotFoundError
	if err == nil || errors.As(err, &none) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("remove the interface %s: %w", name, err)
}

// configureNode sets up the network inside the namespace: the link to the host and
// forwarding. Addresses beyond the lab are unreachable immediately rather than after a
// timeout.
func configureNode(s *spec) error {
	link, err := linkUp(s.Network.Node)
	if err != nil {
		return err
	}
	if s.NodeNetwork && !s.several() { // pods run here
		if err := routeAPI(s.Network, link); err != nil {
			return err
		}
	}
	return routeAlone()
}

// routeAPI lets the node's own programs, such as the network plugin of an ambient mesh,
// reach the API server by its cluster IP: kube-proxy's rules apply only to packets with
// a route.
func routeAPI(n network, link netlink.Link) error {
	return setRoutes("API server", &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: ipNet(netip.PrefixFrom(n.apiService(), 32))})
}

// setRoutes sets routes of a namespace of ours, replacing those to the same destinations.
func setRoutes(where string, routes ...*netlink.Route) error {
	for _, route := range routes {
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("%s: route to %s: %w", where, route.Dst, err)
		}
	}
	return nil
}

// linkUp brings up the loopback and a network namespace's external link, and assigns the
// address.
func linkUp(address netip.Prefix) (netlink.Link, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByName(nodeInterface)
	if err != nil {
		return nil, err
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
		return nil, fmt.Errorf("give the node its address %s: %w", address, err)
	}
	return link, netlink.LinkSetUp(link)
}

// routeAlone enables forwarding in a network namespace, and makes all other destinations
// unreachable.
func routeAlone() error {
	everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if err := setRoutes("node", &netlink.Route{Dst: ipNet(everything), Type: unix.RTN_UNREACHABLE, Priority: 4096}); err != nil {
		return err
	}
	for name, value := range map[string]string{
		"net/ipv4/ip_forward":                  "1",
		"net/ipv4/conf/all/rp_filter":          "0",
		"net/ipv4/conf/default/rp_filter":      "0",
		"net/ipv4/conf/all/send_redirects":     "0",
		"net/ipv4/conf/default/send_redirects": "0",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("set %s: %w", strings.ReplaceAll(name, "/", "."), err)
		}
	}
	return nil
}

// The network of several nodes: each has its own link to the lab's init, which routes
// between them and to the host, without translation or rules. A node's end has the
// node's address without a subnet; init's end has none, and answers for init's own
// address. These functions run in init's network namespace.

// linkNode makes the link of a node whose first process is pid, and replaces init's
// routes to the node and its pods.
func linkNode(n Node, own netip.Addr, pid int) error {
	link, err := linkInto(n.Name, pid)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up the link to node %s: %w", n.Name, err)
	}
	address, source := netip.PrefixFrom(n.Address, 32), net.IP(own.AsSlice())
	return setRoutes("node "+n.Name,
		&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(address), Scope: netlink.SCOPE_LINK, Src: source},
		&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(n.Pods), Gw: n.Address.AsSlice(), Src: source})
}

// unlinkNode removes a node's link and silently drops packets for it, as for a machine
// without power.
func unlinkNode(n Node) error {
	return errors.Join(unlinkHost(n.Name), setRoutes("node "+n.Name,
		&netlink.Route{Dst: ipNet(netip.PrefixFrom(n.Address, 32)), Type: unix.RTN_BLACKHOLE},
		&netlink.Route{Dst: ipNet(n.Pods), Type: unix.RTN_BLACKHOLE}))
}

// routeServices routes the host's traffic for cluster IPs through a running node.
func routeServices(services netip.Prefix, by Node) error {
	link, err := netlink.LinkByName(by.Name)
	if err != nil {
		return fmt.Errorf("node %s: %w", by.Name, err)
	}
	return setRoutes("node "+by.Name, &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(services.Masked()), Gw: by.Address.AsSlice()})
}

// configureMember sets up the network namespace of one of several nodes, in which it
// runs. Everything is reached through init except the node's own pods: missing pods are
// unreachable immediately.
func configureMember(s *spec) error {
	link, err := linkUp(netip.PrefixFrom(s.Self.Address, 32))
	if err != nil {
		return err
	}
	router := s.Network.Node.Addr()
	index, gateway := link.Attrs().Index, net.IP(router.AsSlice())
	routes := []*netlink.Route{
		{LinkIndex: index, Dst: ipNet(netip.PrefixFrom(router, 32)), Scope: netlink.SCOPE_LINK},
		{Dst: ipNet(s.Self.Pods), Type: unix.RTN_UNREACHABLE, Priority: 4096},
	}
	for _, to := range []netip.Prefix{s.Network.Host.Masked(), s.Network.Nodes, s.Network.Pods} {
		routes = append(routes, &netlink.Route{LinkIndex: index, Dst: ipNet(to), Gw: gateway})
	}
	if err := setRoutes("node "+s.Self.Name, routes...); err != nil {
		return err
	}
	if s.NodeNetwork {
		if err := routeAPI(s.Network, link); err != nil {
			return err
		}
	}
	return routeAlone()
}

// inNetwork runs f on a dedicated thread in the network namespace of a process.
func inNetwork(pid int, f func() error) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer namespace.Close()
	return thread.Apart(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}
