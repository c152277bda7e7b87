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

// progress says on stderr what is going on: at a terminal in one line that is
// rewritten in place, elsewhere in a line now and then, so that whoever reads
// along is never left alone for long.
type progress struct {
	out   io.Writer
	width int // of the terminal; 0: not a terminal
	start time.Time

	mu    sync.Mutex
	shown bool        // at a terminal: there is a line to take away
	going string      // elsewhere: what goes on; "" while nothing does
	timer *time.Timer // elsewhere: when it is said next
}

// sayEvery is how often a progress that is no terminal says what goes on.
const sayEvery = 15 * time.Second

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

// timed puts the time since the beginning before a text.
func (p *progress) timed(text string) string {
	return fmt.Sprintf("%5.0f s  %s", time.Since(p.start).Seconds(), text)
}

// sayGoing prints what goes on, and does so again later.
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

// interject prints a line that stays, beside whatever progress of the same output may have a
// line there.
func (p *progress) interject(text string) {
	p.shown = p.width > 0
	p.Note("%s", text)
}

// Clear takes the line away: nothing goes on any more.
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
