package xdsserver

import (
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshtrial/meshtrial/testing/must"
)

// watched is a listener that also returns the connections it accepted.
type watched struct {
	net.Listener
	conns chan *net.TCPConn
}

func (w *watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		w.conns <- tcp
	}
	return conn, err
}

// A client that does not read for a long time, since its machine is busy, keeps
// its connection: the kernel is not asked to drop it.
func TestBusyClientsKeepTheirConnection(t *testing.T) {
	c, err := Synthetic(1, 1)
	must.OK(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	s, w, done := New(c), &watched{l, make(chan *net.TCPConn, 1)}, make(chan error, 1)
	go func() { done <- s.Serve(w) }()
	defer func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.OK(t, err)
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(deadline(t))
	must.OK(t, err)
	must.OK(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ClusterType}))
	if _, err := stream.Recv(); err != nil { // by now the server has set all options
		t.Fatal(err)
	}
	raw, err := (<-w.conns).SyscallConn()
	must.OK(t, err)
	var limit int
	var failed error
	if err := raw.Control(func(fd uintptr) { limit, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if limit != 0 {
		t.Errorf("the kernel ends the connection of a client that reads nothing for %d ms", limit)
	}
}
