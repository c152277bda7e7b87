package fault

import "time"

// Field is a field of an action in a study. Package study reads and writes it
// and describes it to editors.
type Field struct {
	Name, Doc string
	Required  bool
	Value     Value
}

// Value is the destination of a field's value and the values that it accepts:
// one of the types below.
type Value interface{ value() }

type (
	// Text is a text; one of the given words if there are any.
	Text struct {
		To    *string
		OneOf []string
	}
	// Version is the version of a program, such as 1.39.0.
	Version struct{ To *string }
	// Namespace is the namespace of an object.
	Namespace struct{ To *string }
	// Service names a service of the graph.
	Service struct {
		To      *string
		Clients bool // or [LoadService], to say so in hints
	}
	// Count is a whole number from 1 to Most; 0 omits it.
	Count struct {
		To   *int
		Most int64
	}
	// Flag is true or omitted.
	Flag struct{ To *bool }
	// Share is from 0% to 100%.
	Share struct{ To *float64 }
	// Number is above 0 and at most Most.
	Number struct {
		To   *float64
		Most float64
	}
	// Time is a duration of at most Most.
	Time struct {
		To   *time.Duration
		Most time.Duration
	}
	// Bits is a number of bits per second with its unit.
	Bits struct{ To *int64 }
	// Manifests are objects of the Kubernetes API, as YAML in a text.
	Manifests struct{ To *[]map[string]any }
	// Objects name objects of the Kubernetes API.
	Objects struct{ To *[]ObjectRef }
	// Behaviours is a change to a worker's behaviour.
	Behaviours struct{ To *Behaviour }
)

func (Text) value()       {}
func (Version) value()    {}
func (Namespace) value()  {}
func (Service) value()    {}
func (Count) value()      {}
func (Flag) value()       {}
func (Share) value()      {}
func (Number) value()     {}
func (Time) value()       {}
func (Bits) value()       {}
func (Manifests) value()  {}
func (Objects) value()    {}
func (Behaviours) value() {}

// MaxReplicas limits the pods of a service.
const MaxReplicas = 1000

func serviceField(to *string) Field {
	return Field{Name: "service", Required: true, Doc: "A service of the graph.", Value: Service{To: to}}
}

func pickField(to *int) Field {
	return Field{Name: "pick", Doc: "How many of its pods, the first by name; all if left out.", Value: Count{To: to, Most: MaxReplicas}}
}
