package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/components"
)

// File descriptors that init inherits.
const (
	fdControl   = 3 // events, both ways
	fdLabLock   = 4 // held while init lives
	fdStoreLock = 5
	fdHostNet   = 6 // the host's network namespace
)

// node is the lab as seen from inside by an init.
type node struct {
	spec *spec
	sup  *supervisor

	fleet *fleet // for several nodes; nil for a single node or one of several

	mu      sync.Mutex
	control *os.File
}

// Init is the main function of the lab's PID 1. It returns when the lab ends, and every
// process of the lab ends with it.
func Init(ctx context.Context, specFile string) error {
	if os.Getpid() != 1 {
		return errors.New("lab-init is started only by `meshtrial lab up`, as the first process of new namespaces")
	}
	for _, fd := range []int{fdControl, fdLabLock, fdStoreLock, fdHostNet} {
		unix.CloseOnExec(fd)
	}
	control := os.NewFile(fdControl, "control")
	lines := bufio.NewReader(control)
	if err := expect(lines, eventGo); err != nil {
		return err
	}
	s, err := readSpec(specFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n := &node{spec: s, sup: newSupervisor(s.Dir.log), control: control}

	// Until Up sends stay, the lab ends with Up.
	go func() { // ends with Up
		if err := expect(lines, eventStay); err != nil {
			fmt.Fprintln(os.Stderr, "lab-init: the command that started the lab is gone")
			os.Exit(1)
		}
	}()
	err = n.run(ctx)
	n.send(event{Event: eventFailed, Text: fmt.Sprint(err)})
	return err
}

func readSpec(path string) (*spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &spec{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (n *node) send(e event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = sendEvent(n.control, e) // Up may have ended
}

func (n *node) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().UTC().Format(time.RFC3339Nano), text)
	n.send(event{Event: eventSay, Text: text})
}

// raiseFileLimit raises the soft limit of open files to the hard limit. Pods inherit it; the
// usual soft limit is too low for a proxy, and Go restores that for children unless it is
// set here.
func raiseFileLimit() {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// run starts the lab, and returns when it receives an order to end.
func (n *node) run(ctx context.Context) error {
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	raiseFileLimit()
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	outside := hostNetwork{fdHostNet, hostNameservers("/etc/resolv.conf")}
	if err := mountNode(n.spec); err != nil {
		return err
	}
	if err := configureNode(n.spec); err != nil {
		return err
	}
	go n.sup.reap(context.Background()) // these end with init
	if n.spec.several() {
		if err := n.leadFleet(ctx, outside); err != nil {
			return err
		}
	} else {
		registries, err := net.Listen("tcp", egressAddress)
		if err != nil {
			return err
		}
		go egress(outside.DialContext).serve(registries)
	}
	go n.serveStatus()

	if err := n.startAll(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.New("told to end")
		}
		return err
	}
	n.send(event{Event: eventUp})
	// A lab keeps no state, so nothing needs a graceful shutdown: the kernel kills every
	// process of the namespace when init returns.
	<-ctx.Done()
	return nil
}

// leadFleet prepares several nodes and serves orders for them.
func (n *node) leadFleet(life context.Context, outside hostNetwork) error {
	orders, err := net.Listen("unix", ordersSocket)
	if err != nil {
		return err
	}
	if n.fleet, err = newFleet(n, outside); err != nil {
		return err
	}
	go n.fleet.serveOrders(life, orders)
	return nil
}

// serveStatus answers every connection to the status socket with the state of the
// components.
func (n *node) serveStatus() {
	listener, err := net.Listen("unix", statusSocket)
	if err != nil {
		n.say("status socket: %v", err)
		return
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		all := n.sup.components()
		if n.fleet != nil {
			for _, m := range n.fleet.members {
				all = append(all, m.components()...)
			}
		}
		conn.SetDeadline(time.Now().Add(2 * time.Second))
		json.NewEncoder(conn).Encode(all)
		conn.Close()
	}
}

// insidePath returns a path in an init's mount namespace as seen from outside.
func insidePath(initPID int, path string) string {
	return filepath.Join("/proc", fmt.Sprint(initPID), "root", path)
}

// startLimit bounds the start of a lab, and of a node. A start takes 10 s on two idle cores;
// an emulated or overloaded machine that imports images takes 20 times as long.
const startLimit = 10 * time.Minute

var errStartLimit = fmt.Errorf("the node did not come up within %v", startLimit)

// startContainerd starts a node's containerd.
func (n *node) startContainerd(ctx, life context.Context) error {
	n.sup.keep(life, n.spec.containerd())
	return n.waitSocket(ctx, "containerd", criSocket)
}

// startKubelet starts the kubelet, which joins the node to the cluster.
func (n *node) startKubelet(life context.Context) {
	n.sup.keep(life, n.spec.kubelet())
	n.sup.keep(life, n.spec.kubeProxy())
}

// startAll starts the components in dependency order; independent ones start concurrently.
func (n *node) startAll(life context.Context) error {
	ctx, cancel := context.WithTimeoutCause(life, startLimit, errStartLimit)
	defer cancel()
	s := n.spec
	group, ctx := errgroup.WithContext(ctx)
	containerdReady := make(chan struct{})
	group.Go(func() error {
		if err := n.fill(ctx); err != nil {
			return err
		}
		if n.fleet != nil {
			return n.fleet.startAll(ctx)
		}
		if err := n.startContainerd(ctx, life); err != nil {
			return err
		}
		n.say("containerd ready")
		close(containerdReady)
		return nil
	})
	group.Go(func() error {
		n.sup.keep(life, s.etcd())
		if err := n.waitSocket(ctx, "etcd", etcdSocket); err != nil {
			return err
		}
		n.sup.keep(life, s.apiserver())
		config, err := clientcmd.BuildConfigFromFlags("", s.Dir.conf("admin.kubeconfig"))
		if err != nil {
			return err
		}
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if err := n.waitAPI(ctx, config); err != nil {
			return err
		}
		n.say("API server ready")
		n.send(event{Event: eventAPI})
		n.sup.keep(life, s.controllers())
		if n.fleet != nil {
			close(n.fleet.api)
		} else {
			select {
			case <-containerdReady:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			n.startKubelet(life)
		}
		awaitOpenNodes(ctx, kube, len(s.Nodes))
		n.sup.keep(life, s.scheduler())
		n.sup.keep(life, s.kwok())
		return nil
	})
	return group.Wait()
}

// openLimit is how long the scheduler waits for nodes at most.
const openLimit = 15 * time.Second

// awaitOpenNodes waits until that many nodes take pods. A scheduler that finds no node for a pod
// tries again only after one second, then two, then four.
func awaitOpenNodes(ctx context.Context, kube kubernetes.Interface, want int) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	for wake.Pause(ctx, 50*time.Millisecond) == nil {
		all, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		closed := func(n corev1.Node) bool { return notReady(&n, time.Time{}) != "" || len(n.Spec.Taints) > 0 }
		if len(slices.DeleteFunc(all.Items, closed)) >= want {
			return
		}
	}
}

// importGrace is how long the importing containerd may take to shut down.
const importGrace = 10 * time.Second

// importers is how many images are imported at a time.
const importers = 2

// importAll imports archives with a containerd that is started only for that.
func (n *node) importAll(ctx context.Context, images []components.Image) error {
	p := n.spec.command("containerd", "--config="+n.spec.Dir.conf("containerd-import.toml"))
	p.name = "containerd-import"
	pid, ended, err := n.sup.start(p)
	if err != nil {
		return err
	}
	limited, cancel := context.WithCancelCause(ctx)
	gone := make(chan struct{})
	go func() { // ends with the process
		cancel(fmt.Errorf("it %s", describeStatus(<-ended)))
		close(gone)
	}()
	defer func() {
		unix.Kill(pid, unix.SIGTERM)
		select {
		case <-gone:
		case <-time.After(importGrace):
			unix.Kill(pid, unix.SIGKILL)
			<-gone
		}
	}()
	timeout := time.AfterFunc(time.Minute, func() { cancel(errors.New("no answer in a minute")) })
	defer timeout.Stop()
	if err := n.waitSocket(limited, p.name, criSocket); err != nil {
		return err
	}
	ctr := func(ctx context.Context, args ...string) error {
		p := n.spec.command("ctr", append([]string{"--address=" + criSocket, "--namespace=k8s.io", "images"}, args...)...)
		p.name = "import"
		return n.sup.run(ctx, p)
	}
	// Two at a time: while one waits for the disk, the other computes digests.
	imports, importing := errgroup.WithContext(ctx)
	imports.SetLimit(importers)
	for _, image := range images {
		imports.Go(func() error {
			if err := image.Verify(); err != nil {
				return err
			}
			if err := ctr(importing, "import", image.Path); err != nil {
				return fmt.Errorf("%s: %w", image.Ref, err)
			}
			n.say("imported %s", image.Ref)
			return nil
		})
	}
	if err := imports.Wait(); err != nil {
		return err
	}
	// Deleting an image synchronously collects the imports' garbage, which is then not
	// saved.
	const marker = "docker.io/meshtrial/collect:garbage"
	if err := ctr(ctx, "tag", "--force", images[0].Ref, marker); err != nil {
		return err
	}
	return ctr(ctx, "rm", "--sync", marker)
}

// waitSocket waits until a component answers on its socket.
func (n *node) waitSocket(ctx context.Context, name, path string) error {
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		if failed := n.sup.failing(); failed != nil {
			return failed
		}
		if wake.Pause(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("%s does not answer on %s: %w; see %s", name, path, context.Cause(ctx), n.spec.Dir.log(name))
		}
	}
}

// waitAPI waits until the API server reports that it is ready.
func (n *node) waitAPI(ctx context.Context, config *rest.Config) error {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for {
		response, err := client.Get(config.Host + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		if failed := n.sup.failing(); failed != nil {
			return fmt.Errorf("the API server is not ready: %w; see %s", failed, n.spec.Dir.log("kube-apiserver"))
		}
		if wake.Pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("the API server is not ready: %w (%v); see %s", context.Cause(ctx), err, n.spec.Dir.log("kube-apiserver"))
		}
	}
}
