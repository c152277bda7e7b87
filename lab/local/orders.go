package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// KillNode ends a node of the running lab of a state folder ("" means the default) like
// a power failure.
func KillNode(ctx context.Context, dir, name string) error {
	l, err := Open(dir)
	if err != nil {
		return err
	}
	return l.tell(ctx, order{doKill, name})
}

// StartNode starts a killed node, with an empty disk except for images, and waits until
// Kubernetes reports it ready.
func StartNode(ctx context.Context, dir, name string) error {
	l, err := Open(dir)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	said := heartbeat(node).LastHeartbeatTime.Time
	// Kubernetes' timestamps have a resolution of one second, and the kubelet's next
	// report must be later.
	if err := wake.Pause(ctx, time.Until(said.Add(time.Second))); err != nil {
		return err
	}
	if err := l.tell(ctx, order{doStart, name}); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not within %v", readyLimit))
	defer cancel()
	return l.awaitNodes(limited, said, name)
}

// tell sends an order to the init of a running lab and waits until it is done.
func (l *Lab) tell(ctx context.Context, o order) error {
	if len(l.Nodes()) == 1 {
		return errs.WithHint(errs.Usage("the lab has only one node"), "meshtrial lab down, then meshtrial lab up --nodes 3: its nodes can be killed and started")
	}
	failed := func(err error) error { return fmt.Errorf("%s node %s: %w", o.Do, o.Node, err) }
	conn, err := (&net.Dialer{Timeout: answerTime}).DialContext(ctx, "unix", insidePath(l.record.InitPID, ordersSocket))
	if err != nil {
		return failed(fmt.Errorf("ask the lab's init: %w", err))
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	a := answer{}
	if err = json.NewEncoder(conn).Encode(o); err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	switch {
	case ctx.Err() != nil:
		return failed(context.Cause(ctx))
	case err != nil:
		return failed(fmt.Errorf("the lab's init did not answer: %w", err))
	case a.Usage:
		return errs.Usage("%s", a.Error)
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// readyLimit bounds the wait for a node whose kubelet has started.
const readyLimit = 2 * time.Minute

// awaitNodes waits until nodes are ready according to heartbeats after a given time: a
// killed node counts as ready until its heartbeats are missed.
func (l *Lab) awaitNodes(ctx context.Context, after time.Time, names ...string) error {
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return err
	}
	for _, name := range names {
		for state := "nothing seen yet"; ; {
			node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				state = err.Error()
			} else if state = notReady(node, after); state == "" {
				break
			}
			if wake.Pause(ctx, 100*time.Millisecond) != nil {
				return errs.WithHint(fmt.Errorf("node %s is not ready: %w (last seen: %s)", name, context.Cause(ctx), state),
					"meshtrial lab logs %s", filepath.Join(name, "kubelet"))
			}
		}
	}
	return nil
}

// heartbeat returns what a node's kubelet last reported; zero if it has not registered the node.
func heartbeat(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// notReady says why a node is not ready; "" if it is.
func notReady(node *corev1.Node, after time.Time) string {
	switch c := heartbeat(node); {
	case c.Type == "":
		return "its kubelet has not registered it"
	case !c.LastHeartbeatTime.Time.After(after):
		return "its kubelet has not reported anything"
	case c.Status != corev1.ConditionTrue:
		return cmp.Or(c.Message, "its kubelet does not say why")
	}
	return ""
}

// order is a request of `meshtrial lab node` to init.
type order struct {
	Do   string `json:"do"` // kill or start
	Node string `json:"node"`
}

// Orders.
const (
	doKill  = "kill"
	doStart = "start"
)

// answer is init's answer to an order.
type answer struct {
	Error string `json:"error,omitempty"`
	Usage bool   `json:"usage,omitempty"` // the caller made a mistake
}

// serveOrders executes orders, each connection in its own goroutine.
func (f *fleet) serveOrders(life context.Context, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { // ends after its single order
			defer conn.Close()
			var o order
			conn.SetReadDeadline(time.Now().Add(answerTime))
			if json.NewDecoder(conn).Decode(&o) != nil {
				return
			}
			a := answer{}
			if err := f.obey(life, o); err != nil {
				a = answer{Error: err.Error(), Usage: errs.Code(err) == errs.CodeUsage}
			}
			json.NewEncoder(conn).Encode(a)
		}()
	}
}

func (f *fleet) obey(life context.Context, o order) error {
	m, err := f.find(o.Node)
	if err != nil {
		return err
	}
	switch o.Do {
	case doKill:
		err = m.kill()
	case doStart:
		ctx, cancel := context.WithTimeoutCause(life, startLimit, errStartLimit)
		defer cancel()
		err = m.start(ctx)
	default:
		return fmt.Errorf("lab init was asked to %s a node", o.Do)
	}
	if err == nil {
		f.init.say("node %s: %s", o.Node, o.Do)
	}
	return err
}
