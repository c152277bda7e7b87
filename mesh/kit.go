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

// Kit is everything that a mesh provides: its adapter, the flags that select what to install,
// its images and installation, and what it leaves behind. Package mesh/meshes has the table of
// kits; no other package names meshes. Fields are nil or empty if the mesh has no such thing.
type Kit struct {
	Name string
	// Carriers lists what can carry requests in it, and Groups the API groups whose objects
	// configure its proxies, if package study does not know the mesh.
	Carriers []study.Carrier
	Groups   []string
	// New returns the adapter for a lab with these images; nil for a kit that is only an ingress.
	New func(lab.Images) Mesh
	// Ingress returns the adapter for its gateways in a lab with these images.
	Ingress func(lab.Images) Ingress

	Flags []Flag
	// Resolve completes the settings of a command, and rejects contradictions. installed means
	// that the command installs the mesh.
	Resolve func(c Command, installed bool, s Settings) (Settings, error)
	// Needs adds the requirements of a lab that is started for a plan.
	Needs func(plan *study.Plan, s Settings) Settings
	// Extras lists what a plan needs of the mesh that not every lab or cluster has.
	Extras func(plan *study.Plan) []Extra
	// Fits rejects a run's settings that have no effect: no cell uses them, or the running lab
	// differs, according to its facts about this mesh in has. has is nil without a running
	// lab.
	Fits func(ctx context.Context, plan *study.Plan, s Settings, has map[string]string) error

	// Supply returns what the mesh provides for a local lab.
	Supply func(ctx context.Context, s Settings, installed bool) (lab.Supply, error)
	// AwaitDead waits for the end of the mesh's objects that dead runs created in a local lab,
	// identified by label, and deletes the rest. It calls wait if there is something to wait
	// for.
	AwaitDead func(ctx context.Context, config *rest.Config, kube kubernetes.Interface, label string, wait func()) error

	// Rights are the rights that the mesh's features need in a cluster, in addition to the
	// table of package rights.
	Rights map[string][]rights.Row
}

// Extra is something that not every lab or cluster has.
type Extra struct{ Name, Words string }

// Command is a command with flags of meshes.
type Command int

// Commands.
const (
	LabUp     Command = 1 << iota // lab up
	Run                           // run, for the lab that it starts
	LabImages                     // lab components images
)

// Flag is a flag of a mesh.
type Flag struct {
	Name     string
	As       string // the setting's name, if it differs from the flag's
	Commands Command
	Kind     FlagKind
	Usage    string
	Default  string // for the usage text; [Kit.Resolve] applies it
	// Adds means that the flag adds the mesh to those of lab up, unless --mesh is also given.
	Adds bool
}

// Setting returns the name of the flag's setting.
func (f Flag) Setting() string {
	if f.As != "" {
		return f.As
	}
	return f.Name
}

// FlagKind is the kind of a flag's argument.
type FlagKind int

// Kinds of flags.
const (
	Text     FlagKind = iota
	Switch            // no argument
	List              // comma-separated values, repeatable
	Repeated          // one value, repeatable
)

// Settings are the values that flags set for a mesh, by name; settings that were not given are
// absent. A switch has the value "true".
type Settings map[string][]string

// Get returns the value of a setting; "" if it was not given.
func (s Settings) Get(name string) string {
	if values := s[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// With returns the settings with one added. A setting without values counts as not given.
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

// Choices has settings by mesh name.
type Choices map[string]Settings

// OtherThan returns the error for a flag that names something other than the running lab has;
// has is "" if it has nothing of the kind.
func OtherThan(what, has, flag string) error {
	const anew = "run `meshtrial lab down`: the run then starts a lab that has it"
	if has == "" {
		return errs.WithHint(errs.Usage("the running lab has no %s, and %s cannot add it", what, flag), anew)
	}
	return errs.WithHint(errs.Usage("the running lab has %s %s, not the one from %s", what, has, flag), "omit the flag to measure the lab's; or "+anew)
}
