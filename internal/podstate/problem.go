package podstate

import (
	"cmp"
	"fmt"
	"strings"
)

// Object is a pod, or the controller that makes pods.
type Object struct{ Kind, Namespace, Name string }

func (o Object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// Problem is what keeps one pod from becoming ready.
type Problem struct {
	Code Code
	// Object is the pod, or the controller that cannot make its pods.
	Object Object
	// Node, Container and Image are "" if the problem concerns none.
	Node, Container, Image string
	// Reason and Message are in the cluster's own words.
	Reason, Message string

	id   string // identifies the problem across looks
	mark string // changes when the cluster reports the problem again
}

// String describes the problem in one line.
func (p Problem) String() string {
	said := strings.Join(strings.Fields(cmp.Or(p.Message, p.Reason)), " ")
	where := p.Object.String()
	if p.Container != "" {
		where = "container " + p.Container + " of " + where
	}
	node := "node " + cmp.Or(p.Node, "unknown")
	switch p.Code {
	case Refused, NotCreated:
		return fmt.Sprintf("%s cannot make its pods: %s", where, said)
	case Unschedulable:
		return fmt.Sprintf("%s: no node takes it: %s", where, said)
	case ObjectMissing:
		return fmt.Sprintf("%s: what it mounts does not exist: %s", where, said)
	case Volume:
		return fmt.Sprintf("%s: %s cannot mount its volumes: %s", where, node, said)
	case Sandbox:
		return fmt.Sprintf("%s: %s cannot make its sandbox: %s", where, node, said)
	case ImageName:
		return fmt.Sprintf("%s: %s is not the name of an image: %s", where, p.Image, said)
	case ImageAbsent:
		return fmt.Sprintf("%s: %s may not pull image %s, and does not have it", where, node, p.Image)
	case ImagePull:
		return fmt.Sprintf("%s: %s cannot pull image %s: %s", where, node, p.Image, said)
	case ContainerConfig, ContainerStart, ContainerCreate:
		return fmt.Sprintf("%s cannot be started: %s: %s", where, p.Reason, said)
	case Crash:
		return fmt.Sprintf("%s ends again and again: %s", where, said)
	case Failed:
		return fmt.Sprintf("%s failed: %s %s", where, p.Reason, said)
	}
	if p.Reason != "" && p.Message != "" {
		said = p.Reason + ": " + said
	}
	return fmt.Sprintf("%s is not ready: %s", where, said)
}

// Hint says what to do about the problem; "" if there is nothing to add to the cluster's own
// words.
func (p Problem) Hint() string {
	switch p.Code {
	case Refused:
		return "a quota, Pod Security or an admission policy of the cluster refuses them to this namespace: ask the cluster's administrator"
	case ImageName, ImageAbsent, ImagePull:
		return "an image must be in a registry that the nodes may pull from (run --pull-secret, if it is private), or on each node already: docs/cluster.md, The image"
	case Sandbox, ObjectMissing, ContainerConfig, ContainerStart:
		return fmt.Sprintf("kubectl -n %s describe pod %s", p.Object.Namespace, p.Object.Name)
	}
	return ""
}
