package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/journal"
	"github.com/meshtrial/meshtrial/lab"
)

// agree says what a run is going to change in a user's cluster, and asks, unless
// --yes has answered. A local lab is the program's own.
func agree(ctx context.Context, env *Env, p *progress, where lab.Lab, changes []journal.Planned, yes bool) error {
	if where.Kind() == lab.KindLocal || len(changes) == 0 {
		return nil
	}
	return ask(ctx, env, p, false, "outside of its own namespace this run changes, and puts back when it ends:\n"+journal.Text(changes), yes)
}

// ask says what is going to change, and goes on if somebody at the terminal says so.
func ask(ctx context.Context, env *Env, p *progress, own bool, text string, yes bool) error {
	if own || yes {
		p.note("%s", strings.TrimSuffix(text, "\n"))
		return nil
	}
	p.clear()
	if !isTerminal(env.Stdin) || terminalWidth(env.Stderr) == 0 {
		return errs.WithHint(errs.Usage("%sso it has to be asked for", text), "--yes")
	}
	fmt.Fprintf(env.Stderr, "%sgo on? [y/N] ", text)
	answer := make(chan string, 1)
	go func() { // ends with the line, or the program
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
	return errs.WithCode(errors.New("not agreed to: of others' objects nothing was changed"), errs.CodeInterrupted)
}

// isTerminal says whether somebody can be asked there.
func isTerminal(in any) bool {
	f, ok := in.(*os.File)
	return ok && terminalWidth(f) > 0
}
