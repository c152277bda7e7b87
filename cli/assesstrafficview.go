package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/observe/signals"
)

// signalsView shows readings. At a terminal it redraws a table; elsewhere it prints a line for
// each reading and the table at the end. It can also print JSON.
type signalsView struct {
	env      *Env
	f        signalsFlags
	terminal bool
	lines    int // of the table on the screen
	last     *signals.Reading
	told     map[string]bool // problems already printed
}

func newSignalsView(env *Env, f signalsFlags) *signalsView {
	return &signalsView{env: env, f: f, terminal: terminalWidth(env.Stdout) > 0, told: map[string]bool{}}
}

func (v *signalsView) show(r signals.Reading) error {
	v.last = &r
	switch {
	case v.f.once:
		return showReading(v.env, v.f.json, r)
	case v.f.json:
		return json.NewEncoder(v.env.Stdout).Encode(r)
	case v.terminal:
		return v.redraw(r)
	}
	for _, p := range r.Problems {
		if !v.told[p] {
			v.told[p] = true
			fmt.Fprintf(v.env.Stderr, "not read: %s\n", p)
		}
	}
	_, err := fmt.Fprintln(v.env.Stdout, signals.Line(r))
	return err
}

// redraw writes the table over the previous one.
func (v *signalsView) redraw(r signals.Reading) error {
	var table bytes.Buffer
	if err := signals.WriteTable(&table, r); err != nil {
		return err
	}
	width, height := terminalWidth(v.env.Stdout), terminalHeight(v.env.Stdout)
	var out strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", v.lines)
	}
	v.lines = 0
	for line := range strings.Lines(table.String()) {
		line = strings.TrimSuffix(line, "\n")
		// Lines that have scrolled off the screen cannot be overwritten.
		if height > 2 && v.lines >= height-2 {
			out.WriteString("\r(a taller terminal shows more)\x1b[K\n")
			v.lines++
			break
		}
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:width])
		}
		out.WriteString("\r" + line + "\x1b[K\n")
		v.lines++
	}
	out.WriteString("\x1b[J")
	_, err := io.WriteString(v.env.Stdout, out.String())
	return err
}

// terminalHeight returns the height in lines of the terminal behind w, or 0 if unknown.
func terminalHeight(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}

// end prints the full table of the last reading if only lines were printed so far.
func (v *signalsView) end() error {
	if v.last == nil || v.f.once || v.f.json || v.terminal {
		return nil
	}
	fmt.Fprintln(v.env.Stdout)
	return signals.WriteTable(v.env.Stdout, *v.last)
}
