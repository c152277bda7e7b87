package generate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// readPod reads a pod, with its workload's name as istiod finds it.
func (inv *Inventory) readPod(o object) error {
	var spec struct {
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	name := o.Metadata.Name
	job, clock := false, false
	for _, owner := range o.Metadata.Owners {
		if !owner.Controller {
			continue
		}
		name = owner.Name
		for _, label := range []string{"pod-template-hash", "rollouts-pod-template-hash"} {
			if hash := o.Metadata.Labels[label]; owner.Kind == "ReplicaSet" && hash != "" {
				name = strings.TrimSuffix(name, "-"+hash)
			}
		}
		if config := o.Metadata.Labels["deploymentconfig"]; owner.Kind == "ReplicationController" && config != "" {
			name = config
		}
		if job = owner.Kind == "Job"; job {
			clock = jobNumber.MatchString(name)
			name = jobNumber.ReplaceAllString(name, "")
		}
	}
	if given := o.Metadata.Labels["service.istio.io/workload-name"]; given != "" {
		name = given
	}
	proxied, gateway := false, false
	for _, c := range append(spec.Containers, spec.InitContainers...) {
		if c.Name == "istio-proxy" {
			if slices.Contains(c.Args, scope.NodeZtunnel) {
				return nil // it carries what others call
			}
			proxied = true
			gateway = gateway || NotSidecar(c.Args)
		}
	}
	w := Workload{o.Metadata.Namespace, name}
	if o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		switch {
		case clock && proxied: // it will come again
			inv.addIdle(w, o.Metadata.Labels)
		case job && proxied:
			inv.finished[w] = true
		}
		return nil
	}
	if _, listed := inv.pods[Workload{w.Namespace, o.Metadata.Name}]; !listed {
		inv.addEnd(o)
	}
	inv.addPod(w, o.Metadata.Name, o.Metadata.Labels, proxied, gateway)
	start := o.Status.Start
	for _, c := range append(o.Status.Containers, o.Status.Init...) {
		if c.Name == "istio-proxy" && !c.State.Running.Since.IsZero() {
			start = c.State.Running.Since // it may have been restarted
		}
	}
	if proxied && !start.IsZero() {
		if p := inv.workloads[w]; p.Since.IsZero() || start.Before(p.Since) {
			p.Since = start
		}
	}
	return nil
}

// addEnd adds a pod as an endpoint of Services, since it became ready.
func (inv *Inventory) addEnd(o object) {
	e := end{labels: o.Metadata.Labels, since: o.Status.Start}
	for _, c := range o.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		if c.True != "True" {
			return
		}
		if c.Since.After(e.since) {
			e.since = c.Since
		}
	}
	inv.ends[o.Metadata.Namespace] = append(inv.ends[o.Metadata.Namespace], e)
}

// age sets how long Services have had an endpoint.
func (inv *Inventory) age() {
	for _, s := range inv.services {
		if s.At = len(s.Selector) > 0 && inv.Has("Pod"); !s.At {
			continue
		}
		for _, e := range inv.ends[s.Namespace] {
			if !within(s.Selector, e.labels) {
				continue
			}
			if e.since.IsZero() {
				s.At = false
				break
			}
			if s.Since.IsZero() || e.since.Before(s.Since) {
				s.Since = e.since
			}
		}
	}
}

// NotSidecar reports whether the arguments of a container istio-proxy make it a
// proxy that no Sidecar concerns: a gateway, a waypoint or a ztunnel.
func NotSidecar(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return arg == "router" || arg == "waypoint" || arg == scope.NodeZtunnel })
}

// within reports whether all of some labels are among others.
func within(some, labels map[string]string) bool {
	for key, value := range some {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// readWorkloadEntry reads a machine. One that registered itself has a proxy; others may not.
func (inv *Inventory) readWorkloadEntry(o object) error {
	var spec struct {
		Labels map[string]string `json:"labels"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	group := o.Metadata.Annotations["istio.io/autoRegistrationGroup"]
	if group == "" {
		inv.machines[o.Metadata.Namespace]++
		return nil
	}
	labels := maps.Clone(o.Metadata.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, spec.Labels)
	inv.addPod(Workload{o.Metadata.Namespace, group}, o.Metadata.Name, labels, true, false)
	return nil
}

// readController reads a controller: if it has no pods now (scaled to none, or scheduled), its pods
// will need a scope.
func (inv *Inventory) readController(o object) error {
	type template struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	var spec struct {
		Template template `json:"template"`
		Job      struct {
			Spec struct {
				Template template `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	t := spec.Template
	if o.Kind == "CronJob" {
		t = spec.Job.Spec.Template
	}
	const inject = "sidecar.istio.io/inject"
	name := cmp.Or(t.Metadata.Labels["service.istio.io/workload-name"], o.Metadata.Name)
	c := controller{Workload{o.Metadata.Namespace, name}, t.Metadata.Labels, cmp.Or(t.Metadata.Labels[inject], t.Metadata.Annotations[inject])}
	inv.controllers = append(inv.controllers, c)
	if had := inv.born[c.Workload]; had.IsZero() || o.Metadata.Created.Before(had) {
		inv.born[c.Workload] = o.Metadata.Created
	}
	return nil
}

// jobNumber matches the suffix of the Jobs of a CronJob.
var jobNumber = regexp.MustCompile(`-[0-9]{8,}$`)

type container struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
}
