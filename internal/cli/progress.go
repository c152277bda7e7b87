package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// progress tells a person at a terminal what is going on: one line on
// stderr, rewritten in place. Where stderr is no terminal it says nothing,
// but for what is said with note.
type progress struct {
	out   io.Writer
	width int // of the terminal; 0: not a terminal
	start time.Time

	mu    sync.Mutex
	shown bool
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, width: terminalWidth(out), start: time.Now()}
}

// terminalWidth is the width of the terminal behind w in columns, 0 if w is
// no terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// say replaces the line.
func (p *progress) say(format string, args ...any) {
	if p.width == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%5.0f s  ", time.Since(p.start).Seconds()) + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	if runes := []rune(text); len(runes) >= p.width {
		text = string(runes[:p.width-1])
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.shown = true
}

// note prints a line that stays, terminal or not.
func (p *progress) note(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
