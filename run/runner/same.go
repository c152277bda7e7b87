package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// beforehand returns what is known of this attempt before anything is deployed, if
// the lab in its current state can run the plan.
func (r *run) beforehand(ctx context.Context) (record.Header, error) {
	components, err := r.fit(ctx)
	if err != nil {
		return record.Header{}, err
	}
	kind := cmp.Or(r.o.LabKind, r.o.Lab.Kind())
	return record.Header{
		Lab: kind, Revision: r.o.Revision, Observed: r.o.Observed, Cluster: clusterID(ctx, kind, r.o.Lab), Meshtrial: r.o.Version, MeshtrialDigest: r.o.Digest,
		Components: mergeComponents(append(components, r.o.Components...)), Machine: record.Machine{Remarks: r.o.Remarks},
	}, nil
}

// take updates the run's header with what is known of this attempt.
func (r *run) take(now record.Header) {
	h := &r.header
	h.Revision, h.Observed = now.Revision, now.Observed
	h.Lab, h.Cluster, h.Meshtrial, h.MeshtrialDigest, h.Components, h.Machine = now.Lab, now.Cluster, now.Meshtrial, now.MeshtrialDigest, now.Components, now.Machine
}

// clusterID returns the identity of a user's cluster; "" for a local lab and if it
// cannot be determined.
func clusterID(ctx context.Context, kind string, l lab.Lab) string {
	if kind != lab.KindCluster {
		return ""
	}
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		return ""
	}
	ns, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return string(ns.UID)
}

// memoryTolerance is the share by which a machine's memory may differ, because the
// kernel's reservation varies between boots.
const memoryTolerance = 0.01

// Same refuses to resume the run at path, created as described by was, under the
// conditions in now: another build of this program, other components, another lab,
// cluster or machine. Trials of both would be combined in one interval. Values
// that either side lacks are not compared: a header is less complete before the
// pods run. The error is a usage error.
func Same(path string, was, now record.Header) error {
	found := slices.Concat(differingProgram(was, now), differingLab(was, now),
		change("the source of CPU and memory (--observe)", was.Observed, now.Observed), differingComponents(was.Components, now.Components), differingModes(was.Components, now.Components),
		differingMachine(was.Machine, now.Machine))
	if len(found) == 0 {
		return nil
	}
	return errs.WithHint(errs.Usage("run %s cannot be resumed: it was made differently: %s", path, strings.Join(found, "; ")),
		"resume it with what it was made with, or start a new run with --out and compare the two: meshtrial compare %s NEW", shell.Quote(path))
}

// change describes a difference; empty if the values are equal, or if one is
// unknown.
func change(name, was, now string) []string {
	if was == "" || now == "" || was == now {
		return nil
	}
	return []string{fmt.Sprintf("%s was %s and is %s", name, was, now)}
}

// differingProgram compares builds by digest, because builds of a modified tree
// share a version.
func differingProgram(was, now record.Header) []string {
	if was.MeshtrialDigest == "" || now.MeshtrialDigest == "" {
		return change("meshtrial", was.Meshtrial, now.Meshtrial)
	}
	if was.MeshtrialDigest == now.MeshtrialDigest {
		return nil
	}
	name := func(h record.Header) string {
		if was.Meshtrial != now.Meshtrial {
			return h.Meshtrial
		}
		return fmt.Sprintf("%s (build %.12s)", h.Meshtrial, bare(h.MeshtrialDigest))
	}
	return []string{fmt.Sprintf("meshtrial was %s and is %s", name(was), name(now))}
}

func differingLab(was, now record.Header) []string {
	if words := change("the lab", was.Lab, now.Lab); words != nil {
		return words // then everything else is different too
	}
	return slices.Concat(change("the cluster", was.Cluster, now.Cluster), change("the mesh's revision", was.Revision, now.Revision))
}

// differingComponents lists components in now that were not in was. Each version
// of each component must have existed, in the same build if known. It omits names
// that only one side has.
func differingComponents(was, now []record.Component) []string {
	builds := map[string]map[string]record.Component{} // by name and version
	for _, c := range was {
		if builds[c.Name] == nil {
			builds[c.Name] = map[string]record.Component{}
		}
		builds[c.Name][c.Version] = c
	}
	var out []string
	for _, c := range now {
		earlier, known := builds[c.Name]
		if !known {
			continue
		}
		before, ok := earlier[c.Version]
		switch {
		case !ok:
			out = append(out, change(c.Name, strings.Join(slices.Sorted(maps.Keys(earlier)), ", "), c.Version)...)
		case before.Digest != "" && c.Digest != "" && before.Digest != c.Digest:
			out = append(out, fmt.Sprintf("%s %s was a different build (%.12s) and is now %.12s", c.Name, c.Version, bare(before.Digest), bare(c.Digest)))
		case before.Digest == "" && c.Digest == "" && before.Source != c.Source:
			out = append(out, fmt.Sprintf("%s %s was from %s and is from %s", c.Name, c.Version, before.Source, c.Source))
		}
	}
	return out
}

// differingModes compares the on/off modes of components.
func differingModes(was, now []record.Component) []string {
	modes := func(all []record.Component) map[string]string {
		out := map[string]string{}
		for _, c := range all {
			if c.Source == record.SourceOfMode {
				out[c.Name] = c.Version
			}
		}
		return out
	}
	before, after := modes(was), modes(now)
	either := maps.Clone(before)
	maps.Copy(either, after)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(either)) {
		if before[name] == "" || after[name] == "" {
			out = append(out, change(name, cmp.Or(before[name], "off"), cmp.Or(after[name], "off"))...)
		}
	}
	return out
}

// bare returns a digest without the name of its algorithm.
func bare(digest string) string { return digest[strings.LastIndexByte(digest, ':')+1:] }

// differingMachine compares machines by the properties that determine their speed.
// The number of examined nodes in a cluster depends on the placement of pods, and
// doctor's remarks change by the minute.
func differingMachine(was, now record.Machine) []string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	var memory []string
	if a, b := float64(was.MemoryBytes), float64(now.MemoryBytes); a > 0 && b > 0 && max(a, b)-min(a, b) > memoryTolerance*a {
		memory = change("its memory", fmt.Sprintf("%.2f GiB", a/(1<<30)), fmt.Sprintf("%.2f GiB", b/(1<<30)))
	}
	return slices.Concat(
		change("the machine's CPU", was.CPUModel, now.CPUModel),
		change("its number of CPUs", number(int64(was.CPUs)), number(int64(now.CPUs))),
		memory,
		change("its architecture", was.NodeArch, now.NodeArch),
		change("its kernel", was.Kernel, now.Kernel),
		change("its system", was.OS, now.OS),
		change("its hypervisor", was.Virtual, now.Virtual),
		change("its clock", was.ClockSource, now.ClockSource),
		change("its frequency governor", was.Governor, now.Governor),
		change("its cgroups", was.CgroupMode, now.CgroupMode),
		change("Kubernetes", was.Kubernetes, now.Kubernetes),
		change("the container runtime", was.ContainerRun, now.ContainerRun),
	)
}
