package app

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// Each mesh that a study can name has an adapter.
func TestAdapters(t *testing.T) {
	for _, name := range study.Meshes() {
		if meshes.Named(name) == nil || Mesh(name, lab.Images{}).Name() != name {
			t.Errorf("mesh %s has no adapter, or another's", name)
		}
	}
	adapters := 0
	for _, k := range meshes.Kits {
		if k.New != nil { // an ingress has none
			adapters++
		}
	}
	if adapters != len(study.Meshes()) {
		t.Errorf("%d adapters of %d meshes", adapters, len(study.Meshes()))
	}
}

// The settings of a mesh are compared with the running lab. Without settings a run uses the lab
// as it is.
func TestFitsMeshes(t *testing.T) {
	plan := studytest.Plan(t, "name: x\nquestion: x\nmesh: linkerd\nfactors: {sidecars: [none, both]}\n")
	for name, c := range map[string]struct {
		up   map[string]string // facts about the running lab's Linkerd; nil: no lab
		from string
		fits bool
	}{
		"no setting": {map[string]string{lab.Status: "edge-26.8.3"}, "", true},
		"no lab":     {nil, "edge-26.8.2", true},
		"the lab's":  {map[string]string{lab.Status: "edge-26.8.3"}, "edge-26.8.3", true},
		"another":    {map[string]string{lab.Status: "edge-26.8.3"}, "edge-26.8.2", false},
		"none":       {map[string]string{}, "edge-26.8.2", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, record := labFor(t)
			if c.up == nil {
				labWith(t, 0)
			} else {
				noted(t, record, "images", lab.Images{Meshes: map[string]map[string]string{study.MeshLinkerd: c.up}})
			}
			o := RunOptions{}
			if c.from != "" {
				o.Meshes = mesh.Choices{study.MeshLinkerd: {"linkerd": {c.from}}}
			}
			err := o.fitsMeshes(t.Context(), plan)
			if c.up != nil && !c.fits { // another build may describe the same programs differently
				other := exec.CommandContext(t.Context(), "sleep", "60")
				must.OK(t, other.Start())
				process, err := procfs.ReadProcess(other.Process.Pid)
				must.OK(t, err)
				noted(t, record, "init_pid", other.Process.Pid)
				noted(t, record, "init_start_ticks", process.StartTime)
				if err := o.fitsMeshes(t.Context(), plan); err == nil || !strings.Contains(err.Error(), "another build") || !strings.Contains(errs.Hint(err), "lab down") {
					t.Errorf("a lab of another build: %v", err)
				}
				_ = other.Process.Kill()
				_ = other.Wait()
			}
			if c.fits != (err == nil) || err != nil && errs.Code(err) != errs.CodeUsage {
				t.Error(err)
			}
		})
	}
}
