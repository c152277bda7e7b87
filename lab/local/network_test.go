package local

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/testing/must"
)

// sleeper starts a process in a new network namespace.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// serveIn accepts connections in a process's network at all its addresses, and adds one
// address to its loopback as if it were a pod's.
func serveIn(t *testing.T, pid int, pod netip.Addr) net.Listener {
	t.Helper()
	var listener net.Listener
	err := inNetwork(pid, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(pod, 32))}); err != nil {
			return err
		}
		listener, err = net.Listen("tcp4", "0.0.0.0:7777")
		return err
	})
	must.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener
}

// Nodes reach each other by their own addresses and those of their pods, through init's
// network; a node without its link is silent until it has one again.
func TestNetworkOfNodes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace takes root")
	}
	s := threeNodes(t)
	s.NodeNetwork = true
	hub, pids := sleeper(t), []int{sleeper(t), sleeper(t)}
	own := s.Network.Node
	connect := func(i int) error {
		err := inNetwork(hub, func() error { return linkNode(s.Nodes[i], own.Addr(), pids[i]) })
		if err != nil {
			return err
		}
		return inNetwork(pids[i], func() error { return configureMember(s.of(s.Nodes[i])) })
	}
	err := inNetwork(hub, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = nodeInterface
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "host"}); err != nil {
			return err
		}
		return configureNode(s)
	})
	err = errors.Join(err, connect(0), connect(1))
	must.OK(t, err)
	pod := s.Nodes[1].Pods.Addr().Next().Next()
	listener := serveIn(t, pids[1], pod)
	dialFor := func(from int, to netip.Addr, timeout time.Duration) error {
		return inNetwork(from, func() error {
			conn, err := net.DialTimeout("tcp4", net.JoinHostPort(to.String(), "7777"), timeout)
			if err == nil {
				conn.Close()
			}
			return err
		})
	}
	dial := func(from int, to netip.Addr) error { return dialFor(from, to, 300*time.Millisecond) }
	reached := func(when string) {
		t.Helper()
		for _, to := range []netip.Addr{s.Nodes[1].Address, pod} {
			for _, from := range []int{hub, pids[0]} {
				err := dial(from, to)
				for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); err = dial(from, to) {
					time.Sleep(10 * time.Millisecond) // the kernel takes a moment to use a new link
				}
				if err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
		}
	}
	reached("at first")
	// A node's own programs, such as the plugin of an ambient mesh, contact the API
	// server by its cluster IP, for which kube-proxy has rules there.
	api := net.IP(s.Network.apiService().AsSlice())
	for of, want := range map[int]bool{hub: false, pids[0]: true} {
		err := inNetwork(of, func() error { _, err := netlink.RouteGet(api); return err })
		if (err == nil) != want {
			t.Errorf("a route to the API server's cluster IP: %v, want it there: %v", err, want)
		}
	}
	// An address that nobody answers for is also reported as unreachable, after three
	// seconds.
	const atOnce, attempts = 900 * time.Millisecond, 3
	for attempt := 1; ; attempt++ {
		err := dialFor(pids[0], pod.Next(), atOnce)
		if errors.Is(err, unix.EHOSTUNREACH) {
			break
		}
		var silent net.Error
		if !errors.As(err, &silent) || !silent.Timeout() || attempt == attempts {
			t.Errorf("a pod that is not there: %v, want it to be said at once", err)
			break
		}
		t.Logf("once more: %v", err) // the machine may have been suspended
	}
	// As from the host: through the first running node.
	err = inNetwork(hub, func() error {
		return errors.Join(routeServices(s.Network.Services, s.Nodes[0]), routeServices(s.Network.Services, s.Nodes[1]))
	})
	if err != nil {
		t.Error(err)
	}
	must.OK(t, inNetwork(hub, func() error { return unlinkNode(s.Nodes[1]) }))
	for _, to := range []netip.Addr{s.Nodes[1].Address, pod} {
		var silent net.Error
		if err := dial(pids[0], to); !errors.As(err, &silent) || !silent.Timeout() {
			t.Errorf("a node without power answers %s: %v", to, err)
		}
	}
	listener.Close()
	pids[1] = sleeper(t) // it starts again
	must.OK(t, connect(1))
	serveIn(t, pids[1], pod)
	reached("after it came back")
}
