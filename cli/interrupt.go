package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// underSignals runs a command and has its context end at the first interrupt:
// SIGINT, SIGTERM, or the SIGHUP of a terminal that goes. The command then
// reverts what it changed. A second interrupt says what is still to be reverted,
// a third ends the process at once. Where nothing is to be reverted, the second
// has the effect that it has on any program.
func underSignals(stderr io.Writer, command func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	debts := ending.New(outlivePipes)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	ended := make(chan struct{})
	defer close(ended)
	defer signal.Stop(signals)
	go func() {
		for count := 0; ; {
			select {
			case <-ended:
				return
			case s := <-signals:
				if s == syscall.SIGHUP && count > 0 {
					continue // the terminal went after Ctrl-C: nobody asks twice
				}
				count++
				cancel()
				if count == 1 {
					continue
				}
				owed := debts.Open()
				if len(owed) == 0 {
					signal.Stop(signals)
					if os.Getpid() == 1 { // of a container, where signals without a handler do nothing
						os.Exit(errs.CodeInterrupted)
					}
					_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
					return
				}
				text, end := answer(count, owed)
				if escapes(stderr) {
					text = "\n" + text // after the line that says what goes on
				}
				fmt.Fprint(stderr, text)
				if end {
					os.Exit(errs.CodeInterrupted)
				}
			}
		}
	}()
	return command(debts.In(ctx))
}

// answer is what is said to the second and to each later interrupt of a command
// that owes something, and whether the process then ends.
func answer(n int, owed []ending.Debt) (text string, end bool) {
	var what, remedies []string
	for _, debt := range owed {
		what = append(what, debt.What)
		if remedy := "`" + debt.Remedy + "`"; debt.Remedy != "" && !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	left := "what comes next"
	if len(remedies) > 0 {
		left = strings.Join(remedies, " and ")
	}
	if n == 2 {
		return fmt.Sprintf("meshtrial: interrupted; still to be reverted:\n  %s\nA third interrupt ends this at once and leaves the rest to %s.\n",
			strings.Join(what, "\n  "), left), false
	}
	return fmt.Sprintf("meshtrial: interrupted for the third time, which leaves: %s\n  hint: %s\n", strings.Join(what, ", "), left), true
}

// outlivePipes has the process live on when whoever reads its output is gone:
// writing there is an error from then on, not death. Other commands end, as
// `meshtrial assess traffic | head` has to.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// unread tells whether err says that nobody reads the output any more.
func unread(err error) bool { return errors.Is(err, syscall.EPIPE) }
