package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/components"
)

// startLimit bounds the start of a lab, and of a node.
const startLimit = 5 * time.Minute

// startContainerd starts what runs a node's containers.
func (n *node) startContainerd(ctx, life context.Context) error {
	n.sup.keep(life, n.spec.containerd())
	return n.waitSocket(ctx, "containerd", criSocket)
}

// startKubelet lets the node join the cluster.
func (n *node) startKubelet(life context.Context) {
	n.sup.keep(life, n.spec.kubelet())
	n.sup.keep(life, n.spec.kubeProxy())
}

// startAll starts the components in the order of their dependencies; independent ones
// start concurrently.
func (n *node) startAll(life context.Context) error {
	ctx, cancel := context.WithTimeoutCause(life, startLimit, errors.New("the node did not come up within five minutes"))
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
		if err := n.waitAPI(ctx); err != nil {
			return err
		}
		n.say("API server ready")
		n.send(event{Event: eventAPI})
		n.sup.keep(life, s.controllers())
		n.sup.keep(life, s.scheduler())
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
		n.sup.keep(life, s.kwok())
		if s.MetricsServer {
			return n.startMetrics(ctx, life)
		}
		return nil
	})
	return group.Wait()
}

// importGrace is how long the containerd that imports may take to end by itself.
const importGrace = 10 * time.Second

// importAll imports archives with a containerd started for that alone.
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
	ctr := func(name string, args ...string) error {
		p := n.spec.command("ctr", append([]string{"--address=" + criSocket, "--namespace=k8s.io", "images"}, args...)...)
		p.name = name
		return n.sup.run(ctx, p)
	}
	// One after the other: containerd has one writer for the index of all archives,
	// and concurrent imports would mostly wait for each other.
	for _, image := range images {
		if err := image.Verify(); err != nil {
			return err
		}
		if err := ctr("import", "import", image.Path); err != nil {
			return fmt.Errorf("%s: %w", image.Ref, err)
		}
		n.say("imported %s", image.Ref)
	}
	// Deleting an image synchronously collects the garbage of the imports, so that
	// it is not saved.
	const marker = "docker.io/meshtrial/collect:garbage"
	if err := ctr("import", "tag", "--force", images[0].Ref, marker); err != nil {
		return err
	}
	return ctr("import", "rm", "--sync", marker)
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

// waitAPI waits until the API server says that it is ready.
func (n *node) waitAPI(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.spec.Dir.conf("admin.kubeconfig"))
	if err != nil {
		return err
	}
	if err := awaitOK(ctx, config, "/readyz", n.sup.failing); err != nil {
		return fmt.Errorf("the API server is not ready: %w; see %s", err, n.spec.Dir.log("kube-apiserver"))
	}
	return nil
}

// awaitOK requests a path until the server answers with success, or failing returns an
// error.
func awaitOK(ctx context.Context, config *rest.Config, path string, failing func() error) error {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for {
		response, err := client.Get(config.Host + path)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		if failed := failing(); failed != nil {
			return failed
		}
		if wake.Pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("%w (%v)", context.Cause(ctx), err)
		}
	}
}
