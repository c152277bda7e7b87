// Package cli is the command line: one file a subcommand, each turning flags
// into the values that a library package takes, and the library's results
// into text or JSON. It is the only package that prints, decides exit codes,
// and listens for signals.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Env is what a command may touch of the process it runs in.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Main runs the command line and returns the exit code. The first interrupt
// ends the command's context; commands then revert what they changed, and
// end with what they have.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	silenceLibraries()
	err := underSignals(stderr, func(ctx context.Context) error {
		return Run(ctx, args, &Env{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	})
	if err == nil {
		return errs.CodeOK
	}
	if !errors.Is(err, errQuiet) {
		text := err.Error()
		if errs.Code(err) == errs.CodeInterrupted {
			text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
		}
		fmt.Fprintf(stderr, "meshtrial: %s\n", text)
		if hint := errs.Hint(err); hint != "" {
			fmt.Fprintf(stderr, "  hint: %s\n", strings.ReplaceAll(hint, "\n", "\n        "))
		}
	}
	return errs.Code(err)
}

// errQuiet marks an error whose text the command has printed already.
var errQuiet = errors.New("see above")

// quiet returns an error that carries only an exit code.
func quiet(code int) error { return errs.WithCode(errQuiet, code) }

// silenceLibraries keeps what libraries log to their globals off the terminal: klog's lines,
// among them the errors that client-go's informers and its request code handle and log, and
// those of the standard logger, as net/http writes. What a user needs to know comes as an
// error or as progress.
func silenceLibraries() {
	klog.SetLogger(klog.Logger{}) // one without a sink
	log.SetOutput(io.Discard)
}

// successors are what commands of earlier versions have become.
var successors = map[string]string{"signals": "assess traffic", "advise": "assess limits", "scope": "assess config", "capacity": "assess capacity"}

// Run runs one command line under ctx.
func Run(ctx context.Context, args []string, env *Env) error {
	if len(args) > 0 && successors[args[0]] != "" { // whatever flags follow
		return errs.WithHint(errs.Usage("unknown command %q", args[0]), "it is now meshtrial %s", successors[args[0]])
	}
	ctx = podwait.Reporting(ctx, func(text string) { newProgress(env.Stderr).interject(text) })
	root := newRootCommand(env)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	return root.ExecuteContext(ctx)
}

// Root is the tree of commands, for documents made from it.
func Root() *cobra.Command {
	return newRootCommand(&Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
}

func newRootCommand(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "meshtrial",
		Short: "A performance lab for service meshes",
		Long: "meshtrial starts a real Kubernetes cluster with a real Istio on this machine, measures\n" +
			"what the mesh costs, what limits it and what happens when things break, and shows how\n" +
			"far the answers can be trusted.\n\n" +
			"Exit codes of every command: 0 success, 1 failure, 2 wrong usage or input, 3 a check\n" +
			"failed (an assertion, an expected verdict, a margin, an alert), 4 not valid or\n" +
			"inconclusive, 130 interrupted.",
		Example: "  meshtrial doctor                    # is this machine fit to measure?\n" +
			"  meshtrial run quick                 # a first study, in its own lab\n" +
			"  meshtrial study list                # all shipped studies\n" +
			"  meshtrial report runs/quick-... --format html --out report.html",
		Version:       app.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return errs.WithHint(errs.WithCode(err, errs.CodeUsage), "%s --help shows its flags", cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	addCommands(root, env)
	root.InitDefaultHelpCmd()
	markUsageErrors(root)
	return root
}

// parentCommand is a command that only has others below it.
func parentCommand(use, short, long string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(below...)
	return cmd
}

// noArguments is for commands that take flags only, or another command.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		return unknownCommand(cmd, args[0])
	}
	return errs.WithHint(errs.Usage("%s: unexpected argument %q", below(cmd), args[0]), "usage: %s", cmd.UseLine())
}

// below returns a command's name without the program's, which begins every error.
func below(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// unknownCommand is the error about a word that is no command of parent.
func unknownCommand(parent *cobra.Command, word string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := parent.CommandPath() + " --help lists the commands"
	if near := errs.Nearest(word, names); near != "" {
		hint = near + " " + hint
	}
	return errs.WithHint(errs.Usage("unknown command %q", word), "%s", hint)
}

// markUsageErrors has complaints about positional arguments say what the
// command takes, with exit code 2.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err != nil && errs.Code(err) == errs.CodeFailure {
				err = errs.WithHint(errs.Usage("%s: %s given", below(c), words.Plural(len(args), "argument")), "usage: %s", c.UseLine())
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		markUsageErrors(sub)
	}
}
