package app

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/lab/components"
)

// told is a [Progress] that keeps what it is told.
type told struct {
	said  []string
	notes strings.Builder
	going bool
}

func (p *told) Say(format string, args ...any) {
	p.said, p.going = append(p.said, fmt.Sprintf(format, args...)), true
}

func (p *told) Note(format string, args ...any) { fmt.Fprintf(&p.notes, format+"\n", args...) }

func (p *told) Component(components.Event) {}

func (p *told) Clear() { p.going = false }
