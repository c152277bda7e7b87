package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// ask lists changes and asks the user at the terminal for consent. It does not ask if own or yes
// is set.
func ask(ctx context.Context, env *Env, p *progress, own bool, text string, yes bool) error {
	if own || yes {
		p.Note("%s", strings.TrimSuffix(text, "\n"))
		return nil
	}
	p.Clear()
	if !isTerminal(env.Stdin) || terminalWidth(env.Stderr) == 0 {
		return errs.WithHint(errs.Usage("%sconfirmation is required", text), "--yes")
	}
	fmt.Fprintf(env.Stderr, "%scontinue? [y/N] ", text)
	answer := make(chan string, 1)
	go func() { // returns when a line is read, or leaks until the program exits
		line, _ := bufio.NewReader(env.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	}
	return errs.WithCode(errors.New("not confirmed: nothing outside the run's own namespaces was changed"), errs.CodeInterrupted)
}

// isTerminal reports whether in is a terminal at which a user can answer.
func isTerminal(in any) bool {
	f, ok := in.(*os.File)
	return ok && terminalWidth(f) > 0
}
