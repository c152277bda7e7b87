package mesh

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/study"
)

// Kit is everything that a mesh brings: its adapter, the flags by which users say what to
// install, its images and installation, and what it leaves behind. Package mesh/meshes has
// the table of kits; nothing else names meshes. What is nil or empty, the mesh does not have.
type Kit struct {
	Name string
	// Carriers are who can carry requests in it, and Groups those of the API whose objects
	// configure its proxies, if package study does not know the mesh.
	Carriers []study.Carrier
	Groups   []string
	// New makes the adapter for a lab with these images.
	New func(lab.Images) Mesh

	Flags []Flag
	// Resolve completes the settings of a command, and refuses those that contradict each
	// other. installed says that the command installs the mesh.
	Resolve func(c Command, installed bool, s Settings) (Settings, error)
	// Needs adds what a lab must have that is started for a plan.
	Needs func(plan *study.Plan, s Settings) Settings
	// Extras are what a plan needs of the mesh and not every lab or cluster has.
	Extras func(plan *study.Plan) []Extra
	// Fits refuses settings of a run that have no effect: no cell is about them, or the
	// running lab, whose facts has are of this mesh, has something else. has is nil without a
	// running lab.
	Fits func(ctx context.Context, plan *study.Plan, s Settings, has map[string]string) error

	// Supply is what a lab of ours takes from the mesh.
	Supply func(ctx context.Context, s Settings, installed bool) (lab.Supply, error)
	// AwaitDead waits for the end of what dead runs made of the mesh in a lab of ours, by their
	// label, and deletes what is left. wait is told that there is something to wait for.
	AwaitDead func(ctx context.Context, config *rest.Config, kube kubernetes.Interface, label string, wait func()) error

	// Rights are those in a cluster that features need for the mesh, beside the table of package
	// rights.
	Rights map[string][]rights.Row
}

// Extra is something that not every lab or cluster has.
type Extra struct{ Name, Words string }

// Command is one with flags of meshes.
type Command int

// Commands.
const (
	LabUp     Command = 1 << iota // lab up
	Run                           // run, of the lab that it starts
	LabImages                     // lab components images
)

// Flag is a flag of a mesh.
type Flag struct {
	Name     string
	As       string // the setting's name, if not the flag's
	Commands Command
	Kind     FlagKind
	Usage    string
	Default  string // for the usage; [Kit.Resolve] fills it in
	// Adds says that the flag adds the mesh to those of lab up, unless --mesh is given too.
	Adds bool
}

// Setting is the name of the setting that the flag gives.
func (f Flag) Setting() string {
	if f.As != "" {
		return f.As
	}
	return f.Name
}

// FlagKind says what a flag takes.
type FlagKind int

// Kinds of flags.
const (
	Text     FlagKind = iota
	Switch            // nothing: it is given or not
	List              // values with commas between them, several times
	Repeated          // a value each time
)

// Settings are what flags said of a mesh, by name. One that was not given is not there; the
// value of a switch is "true".
type Settings map[string][]string

// Get is the value of a setting; "" if it was not given.
func (s Settings) Get(name string) string {
	if values := s[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// With are the settings with one more. Without values it is not given.
func (s Settings) With(name string, values ...string) Settings {
	out := Settings{}
	for n, v := range s {
		out[n] = v
	}
	delete(out, name)
	if len(values) > 0 {
		out[name] = values
	}
	return out
}

// Choices are settings by the names of meshes.
type Choices map[string]Settings

// OtherThan says that the lab that runs has something else than a flag names; has is "" if it
// has nothing of the kind.
func OtherThan(what, has, flag string) error {
	const anew = "`meshtrial lab down`, and the run starts a lab that has it"
	if has == "" {
		return errs.WithHint(errs.Usage("the running lab has no %s, and %s adds none to it", what, flag), anew)
	}
	return errs.WithHint(errs.Usage("the running lab has %s %s, not that of %s", what, has, flag), "leave the flag out, to measure the lab's; or "+anew)
}
