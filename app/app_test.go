package app

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/lab/components"
)

// recorder is a [Progress] that records its calls.
type recorder struct {
	said  []string
	notes strings.Builder
	going bool
}

func (p *recorder) Say(format string, args ...any) {
	p.said, p.going = append(p.said, fmt.Sprintf(format, args...)), true
}

func (p *recorder) Note(format string, args ...any) { fmt.Fprintf(&p.notes, format+"\n", args...) }

func (p *recorder) Component(components.Event) {}

func (p *recorder) Clear() { p.going = false }
