package local

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
)

// The network of several nodes: each has a link of its own to the lab's init, which
// routes between them and to the host, without translation or rules. A node's end has
// the node's address without a subnet; init's end has none, and answers for init's own.
// These functions run in init's network namespace.

// linkNode makes the link of a node whose first process is pid, and replaces init's
// routes to the node and its pods.
func linkNode(n Node, own netip.Addr, pid int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = n.Name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: nodeInterface, PeerNamespace: netlink.NsPid(pid)}); err != nil {
		return fmt.Errorf("create the link to node %s: %w", n.Name, err)
	}
	link, err := netlink.LinkByName(n.Name)
	if err != nil {
		return fmt.Errorf("link to node %s: %w", n.Name, err)
	}
	os.WriteFile("/proc/sys/net/ipv6/conf/"+n.Name+"/disable_ipv6", []byte("1"), 0)
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up the link to node %s: %w", n.Name, err)
	}
	address, source := netip.PrefixFrom(n.Address, 32), net.IP(own.AsSlice())
	for _, route := range []*netlink.Route{
		{LinkIndex: link.Attrs().Index, Dst: ipNet(address), Scope: netlink.SCOPE_LINK, Src: source},
		{LinkIndex: link.Attrs().Index, Dst: ipNet(n.Pods), Gw: n.Address.AsSlice(), Src: source},
	} {
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s to node %s: %w", route.Dst, n.Name, err)
		}
	}
	return nil
}

// unlinkNode removes a node's link and drops packets for it silently, as for a machine
// without power.
func unlinkNode(n Node) error {
	all := []error{unlinkHost(n.Name)}
	for _, to := range []netip.Prefix{netip.PrefixFrom(n.Address, 32), n.Pods} {
		if err := netlink.RouteReplace(&netlink.Route{Dst: ipNet(to), Type: unix.RTN_BLACKHOLE}); err != nil {
			all = append(all, fmt.Errorf("route %s nowhere: %w", to, err))
		}
	}
	return errors.Join(all...)
}

// routeServices routes the host's traffic for cluster IPs through a running node.
func routeServices(services netip.Prefix, by Node) error {
	link, err := netlink.LinkByName(by.Name)
	if err == nil {
		err = netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(services.Masked()), Gw: by.Address.AsSlice()})
	}
	if err != nil {
		return fmt.Errorf("route %s through node %s: %w", services, by.Name, err)
	}
	return nil
}

// configureMember sets up the network namespace of one of several nodes, in which it
// runs. Everything is reached through init, except the node's own pods: missing ones are
// unreachable at once.
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
	for _, route := range routes {
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("node %s: route to %s: %w", s.Self.Name, route.Dst, err)
		}
	}
	if s.Ambient {
		if err := routeAPI(s.Network, link); err != nil {
			return err
		}
	}
	return routeAlone()
}

// inNetwork runs f on a thread of its own in the network namespace of a process.
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
