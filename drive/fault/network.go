package fault

import (
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/study"
)

// Network disturbs packets from one service's pods to another's. Where a kernel
// cannot combine disturbances, only one of them may be set.
type Network struct {
	usual
	From, To string // services; From may be LoadService
	Pick     int    // pods of To; All for every one
	Cut      bool
	Lose     float64       // share of packets, 0..1
	Delay    time.Duration // of each packet
	Rate     int64         // bits per second; 0 for no limit
}

var networkKind = Kind{Name: "network", Doc: "Disturbs packets from one service's pods to another's.", New: func() Action { return &Network{} }}

func (*Network) Kind() string { return networkKind.Name }

func (a *Network) Fields() []study.Field {
	return []study.Field{
		{Name: "from", Required: true, Doc: "Service that sends, or clients.", Value: service(&a.From, true)},
		{Name: "to", Required: true, Doc: "Service that receives.", Value: service(&a.To, false)}, pickField(&a.Pick),
		{Name: "cut", Doc: "Drops every packet.", Value: study.Bool(&a.Cut).OmitZero()},
		{Name: "lose", Doc: "Drops a share of the packets.", Value: study.Portion(&a.Lose).OmitZero()},
		{Name: "delay", Doc: "Delays every packet by this time.", Value: study.Duration(&a.Delay, 0, 10*time.Second).OmitZero()},
		{Name: "rate", Doc: "Limits throughput, for example to 1mbit (per second).", Value: bits(&a.Rate)},
	}
}

func (a *Network) Check(step, _ string) []Problem {
	if len(a.Needs()) > 0 {
		return nil
	}
	return []Problem{{Hint: "cut: true, lose: 10%, delay: 5ms or rate: 1mbit", Text: fmt.Sprintf("step %q has no effect on the network", step)}}
}

func (a *Network) Target() string { return a.Holds() }
func (a *Network) Holds() string  { return "network from " + a.From + " to " + a.To }

func (a *Network) Needs() []string {
	var out []string
	for _, one := range []struct {
		asked bool
		need  string
	}{{a.Cut, NeedCut}, {a.Lose > 0, NeedLose}, {a.Delay > 0, NeedDelay}, {a.Rate > 0, NeedRate}} {
		if one.asked {
			out = append(out, one.need)
		}
	}
	return out
}

// Expect models a cut only, not loss, delay or rate.
func (a *Network) Expect(n *Standing) bool {
	if a.Cut {
		n.breaks(a.To, a.Pick)
	}
	return a.Cut
}

func (a *Network) Perform(p Performer) error { return p.Network(a) }
