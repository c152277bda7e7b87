package fault

// Action is what a step does. Each kind of action is a type of this package,
// in a file of its own, with everything about it that has no effect; what it
// does in a trial is behind the Performer that the trial brings.
type Action interface {
	// Kind is its name in studies and records.
	Kind() string
	// Fields are those of the study's mapping, which point into the action.
	Fields() []Field
	// Settle fills in what the study left out.
	Settle()
	// Check finds what is wrong with it by itself. step is the step's name,
	// service one that hints may name.
	Check(step, service string) []Problem
	// Services are those that it names.
	Services() []Reference
	// Target names what it acts on, for records and reports.
	Target() string
	// Holds names what it acts on in the sense that two actions on the same
	// thing at the same time would undo each other.
	Holds() string
	// Reversible tells whether it has an end of its own.
	Reversible() bool
	// Needs are what nodes must be able to do, as Need constants.
	Needs() []string
	// Expect puts it in force for arithmetic. It returns false if it changes
	// what arithmetic does not know.
	Expect(n *Standing) bool
	// Perform calls the performer's method for its kind.
	Perform(p Performer) error
}

// Performer makes ready what actions do, a method for each kind.
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
}

// Kind describes a kind of action.
type Kind struct {
	Name string
	Doc  string // a sentence, for the study's reference
	// Long says that a study writes it over several lines.
	Long bool
	New  func() Action
}

// Kinds lists the kinds of actions in the order that documents use.
func Kinds() []Kind {
	return []Kind{removeKind, addKind, restartKind, workerKind, processKind, networkKind, configKind, loadKind, certificatesKind, revisionKind, moveKind, drainKind}
}

// KindNames are the names of all kinds, in their order.
func KindNames() []string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.Name)
	}
	return out
}

// Reference is a service that an action names, in a field of it.
type Reference struct {
	Field, Service string
	// Clients says that [LoadService] can stand there too.
	Clients bool
}

// What nodes must be able to do.
const (
	NeedProcess = "process" // kill and pause, and find again what was paused
	NeedMemory  = "memory"  // bound a container's, and count whom the kernel kills for it
	NeedCut     = "cut"
	NeedLose    = "lose"
	NeedDelay   = "delay"
	NeedRate    = "rate"
)

// All picks every replica of a service.
const All = 0

// LoadService is the name by which steps call the clients.
const LoadService = "clients"

// usual is what most actions have in common.
type usual struct{}

// Settle implements [Action]: nothing is left to fill in.
func (usual) Settle() {}

// Check implements [Action]: its fields' own bounds are all there is.
func (usual) Check(string, string) []Problem { return nil }

// Reversible implements [Action].
func (usual) Reversible() bool { return true }

// Needs implements [Action]: it asks nothing of nodes.
func (usual) Needs() []string { return nil }
