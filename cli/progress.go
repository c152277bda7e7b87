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

// progress shows on stderr what the program is doing. At a terminal it rewrites one line in
// place; elsewhere it prints a line at intervals, so that a reader is never left without news for
// long.
type progress struct {
	out   io.Writer
	width int // of the terminal; 0 if out is none that understands escape sequences
	start time.Time

	mu    sync.Mutex
	shown bool        // at a terminal: a line is shown
	going string      // elsewhere: the current activity; "" if there is none
	timer *time.Timer // elsewhere: prints going at intervals
}

// sayEvery is the interval at which progress is printed where no line can be rewritten.
const sayEvery = 15 * time.Second

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, start: time.Now()}
	if escapes(out) {
		p.width = terminalWidth(out)
	}
	return p
}

// escapes reports whether w is a terminal that understands escape sequences.
func escapes(w io.Writer) bool { return terminalWidth(w) > 0 && os.Getenv("TERM") != "dumb" }

// terminalWidth returns the width in columns of the terminal behind w, or 0 if w is not a
// terminal.
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

// Say replaces the line.
func (p *progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	if p.width == 0 {
		p.going = text
		if p.timer == nil {
			p.timer = time.AfterFunc(sayEvery, p.sayGoing)
		}
		return
	}
	text = p.timed(text)
	if runes := []rune(text); len(runes) >= p.width {
		text = string(runes[:p.width-1])
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.shown = true
}

// timed puts the elapsed time in front of a text.
func (p *progress) timed(text string) string {
	return fmt.Sprintf("%5.0f s  %s", time.Since(p.start).Seconds(), text)
}

// sayGoing prints the current activity and rearms the timer.
func (p *progress) sayGoing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.going == "" {
		p.timer = nil
		return
	}
	fmt.Fprintln(p.out, p.timed(p.going))
	p.timer.Reset(sayEvery)
}

// Note prints a line that stays, terminal or not.
func (p *progress) Note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeAway()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// interject prints a line that stays. It first erases a line that another progress on the same
// output may have left.
func (p *progress) interject(text string) {
	p.shown = p.width > 0
	p.Note("%s", text)
}

// Clear removes the line; there is no current activity any more.
func (p *progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeAway()
}

func (p *progress) takeAway() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
	p.going = ""
}
