package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RoleFault is the role that acts on processes and packets of its node.
const RoleFault = "fault"

// faultGrace is how long the role may take to undo active faults when its pod is
// deleted.
const faultGrace = 10 * time.Second

// faultSet returns the DaemonSet of the fault role. It has exactly the privileges
// that the role needs, each for a reason:
//
//	hostPID     finds the processes of other pods, and is no child of theirs
//	root        owns the capabilities, none of which is inherited by a user
//	KILL        signals processes of other users: istiod's, sidecars'
//	SYS_PTRACE  opens /proc/PID/ns/net of processes of other users, and the node's
//	            cgroups in /proc/1/root
//	SYS_ADMIN   enters a pod's network namespace, makes one to try things in
//	NET_ADMIN   makes packet filter rules and queues there
func faultSet(namespace string, images lab.Images, run string) *appsv1.DaemonSet {
	set := nodeRole{
		name: RoleFault,
		args: []string{"fault", "--control", "127.0.0.1:" + strconv.Itoa(node.ControlPort), "--control-token-file", tokenFile(RoleFault),
			"--node-address", "$(NODE_ADDRESSES)", "--alone", Alone.String()},
		env: []corev1.EnvVar{{Name: "NODE_ADDRESSES", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.hostIPs"}}}},
		capabilities: []corev1.Capability{"KILL", "NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"},
	}.daemonSet(namespace, run, images)
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = Ptr(int64(faultGrace / time.Second))
	return set
}

// FaultRoles has clients of the fault role of each node.
type FaultRoles struct{ NodeRoles[node.Client] }

// CreateFaultRoles creates the DaemonSet, and the Secret with a token known only to
// this run.
func (s *Site) CreateFaultRoles(ctx context.Context) (*FaultRoles, error) {
	token, err := s.createNodeRole(ctx, faultSet(s.Namespace, s.lab.Images(), s.Run), node.ControlPort)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, line *http.Client) (node.Client, error) {
		client := node.Client{HTTPClient: line, BaseURL: lab.InPod, Token: token}
		_, err := client.List(ctx)
		return client, err
	}
	return &FaultRoles{NodeRoles[node.Client]{Site: s, ByNode: map[string]node.Client{}, role: RoleFault, port: node.ControlPort, dial: dial}}, nil
}

// Connect waits until every pod of the DaemonSet responds. Call it again after
// connections broke.
func (f *FaultRoles) Connect(ctx context.Context) error {
	return f.connect(ctx, func(ctx context.Context, pods int) (podwait.Seen, error) {
		set, err := f.Kube.AppsV1().DaemonSets(f.Namespace).Get(ctx, RoleFault, metav1.GetOptions{})
		if err != nil {
			return podwait.Seen{}, err
		}
		wanted := int(set.Status.DesiredNumberScheduled)
		return podwait.Seen{Done: wanted > 0 && len(f.ByNode) >= wanted, State: fmt.Sprintf("%d pods of %d answer", len(f.ByNode), wanted),
			Missing: max(wanted, 1) - pods}, nil
	})
}

// At returns the client of a node's fault role.
func (f *FaultRoles) At(name string) (node.Client, error) {
	if client, ok := f.ByNode[name]; ok {
		return client, nil
	}
	return node.Client{}, errs.WithHint(fmt.Errorf("no fault role runs on node %s", name), "kubectl -n %s describe daemonset %s", f.Namespace, RoleFault)
}

// OffersFor lists what a timeline needs of nodes; empty if it needs no fault role.
func OffersFor(t *fault.Timeline) []string {
	need := map[string]bool{}
	for _, step := range t.Steps {
		for _, one := range step.Action.Needs() {
			need[one] = true
		}
	}
	return slices.Sorted(maps.Keys(need))
}

// Check makes every node try what a timeline needs, and returns the results. It
// returns an error if a node cannot do it.
func (f *FaultRoles) Check(ctx context.Context, t *fault.Timeline) ([]string, error) {
	var seen []string
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(f.ByNode)) {
		offers, err := f.ByNode[name].Offers(ctx)
		if err != nil {
			return nil, fmt.Errorf("node %s: list supported faults: %w", name, err)
		}
		for _, what := range OffersFor(t) {
			i := slices.IndexFunc(offers, func(o node.Offer) bool { return o.What == what })
			switch {
			case i < 0:
				failed = append(failed, fmt.Errorf("node %s does not report whether it supports %s", name, what))
			case !offers[i].OK:
				failed = append(failed, fmt.Errorf("node %s does not support %s: %s", name, what, offers[i].Detail))
			default:
				seen = append(seen, fmt.Sprintf("node %s, %s: %s", name, what, offers[i].Detail))
			}
		}
	}
	if len(failed) > 0 {
		return nil, errs.WithHint(errors.Join(failed...), "leave out the steps that need %s, or use nodes with another kernel", strings.Join(OffersFor(t), ", "))
	}
	return seen, nil
}
