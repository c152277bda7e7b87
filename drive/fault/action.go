package fault

import "github.com/meshtrial/meshtrial/study"

// Action is what a step does. Each kind of action is a type of this package in its
// own file, which holds everything about it except its effect: the trial's
// [Performer] provides that.
type Action interface {
	// Kind is its name in studies and records.
	Kind() string
	// Fields are those of its mapping in a study; their values point into the action.
	Fields() []study.Field
	// Settle fills in defaults.
	Settle()
	// Check finds problems of the action itself. step is the step's name, service an
	// example for hints.
	Check(step, service string) []Problem
	// Target names what it acts on, for records and reports.
	Target() string
	// Holds names what the action occupies: two actions that hold the same
	// thing at the same time would revert each other.
	Holds() string
	// Reversible reports whether the action can be reverted while the trial goes on.
	Reversible() bool
	// Needs returns the abilities that it needs of nodes, as Need constants.
	Needs() []string
	// Expect applies the action to the arithmetic's state. It returns false if
	// the arithmetic does not model its effect, such as the time to replace pods.
	Expect(n *Standing) bool
	// Perform calls the performer's method for its kind.
	Perform(p Performer) error
}

// Performer prepares the effects of actions, one method per kind.
type Performer interface {
	Remove(a *Remove) error
	Add(a *Add) error
	Restart(a *Restart) error
	Worker(a *Worker) error
	Process(a *Process) error
	Network(a *Network) error
	Config(a *Config) error
	Load(a *Load) error
	Certificates(a *Certificates) error
	Revision(a *Revision) error
	Move(a *Move) error
	Drain(a *Drain) error
	Zone(a *Zone) error
}

// Kind describes a kind of action.
type Kind struct {
	Name string
	Doc  string // a sentence, for the study's reference
	// Long reports whether studies write it over several lines.
	Long bool
	New  func() Action
}

// Kinds lists the kinds of actions in the order of the documentation.
func Kinds() []Kind {
	return []Kind{removeKind, addKind, restartKind, workerKind, processKind, networkKind, configKind, loadKind, certificatesKind, revisionKind, moveKind, drainKind, zoneKind}
}

// KindNames returns the names of all kinds, in the order of [Kinds].
func KindNames() []string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.Name)
	}
	return out
}

// Reference is a service that a field of an action names.
type Reference struct {
	Field, Service string
	// Clients also allows [LoadService].
	Clients bool
}

// Abilities of nodes that actions need.
const (
	NeedProcess = "process" // kill and pause processes, and find paused ones again
	NeedMemory  = "memory"  // limit a container's memory and count OOM kills
	NeedCut     = "cut"
	NeedLose    = "lose"
	NeedDelay   = "delay"
	NeedRate    = "rate"
)

// All, as a number of replicas, picks every one.
const All = 0

// LoadService names the clients in steps.
const LoadService = "clients"

// Services returns the services that an action names.
func Services(a Action) (out []Reference) {
	for _, f := range a.Fields() {
		if s, ok := f.Value.(ServiceValue); ok && *s.To != "" {
			out = append(out, Reference{Field: f.Name, Service: *s.To, Clients: s.Clients})
		}
	}
	return out
}

// usual provides the methods that most actions share: no defaults, no checks beyond
// the bounds of fields, reversible, no needs, an effect that is not modelled.
type usual struct{}

func (usual) Settle()                        {}
func (usual) Check(string, string) []Problem { return nil }
func (usual) Reversible() bool               { return true }
func (usual) Needs() []string                { return nil }
func (usual) Expect(*Standing) bool          { return false }
