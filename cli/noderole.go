package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nodeRoleFlags holds the flags of the roles that act on their node's processes.
type nodeRoleFlags struct {
	tokenFile string
	alone     time.Duration
	verbose   bool
}

// add adds the flags to a command. It stores the values of two of them in control and procRoot.
func (f *nodeRoleFlags) add(cmd *cobra.Command, control *string, port int, procRoot *string) {
	flags := cmd.Flags()
	flags.StringVar(control, "control", fmt.Sprintf("127.0.0.1:%d", port), "loopback `address` of the control server")
	flags.StringVar(&f.tokenFile, "control-token-file", "", "`FILE` with the token that callers must send")
	flags.StringVar(procRoot, "proc-root", "/proc", "`DIR` where the node's /proc is mounted")
	addAlone(flags, &f.alone)
	flags.BoolVar(&f.verbose, "verbose", false, "log more to standard error")
}

// read returns the token and the logger. could says what a caller without a token could do, for
// the error message.
func (f *nodeRoleFlags) read(ctx context.Context, env *Env, could string) (token string, log *slog.Logger, err error) {
	if f.tokenFile == "" {
		return "", nil, errs.Usage("--control-token-file is missing: without it, anyone who reaches this process could %s", could)
	}
	if token, err = readToken(ctx, f.tokenFile); err != nil {
		return "", nil, err
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	return token, slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: level})), nil
}

// roleServer is a control server that is already listening.
type roleServer interface {
	Address() string
	Serve(ctx context.Context) error
}

// addAlone adds the flag for roles that end when their runner is gone.
func addAlone(flags *pflag.FlagSet, alone *time.Duration) {
	flags.DurationVar(alone, "alone", 0, "revert everything and exit after this `duration` without contact (default never)")
}

// serveRole prints the address of a role and serves until ctx ends, or until alive has heard
// nothing for too long, which is not an error.
func serveRole(ctx context.Context, env *Env, alive *jsonhttp.Alive, server roleServer) error {
	fmt.Fprintf(env.Stderr, "control %s\n", server.Address())
	ctx, cancel := whileHeard(ctx, env, alive)
	defer cancel()
	return server.Serve(ctx)
}

// whileHeard returns a context that ends when alive has heard nothing for too long. It prints the
// reason.
func whileHeard(ctx context.Context, env *Env, alive *jsonhttp.Alive) (context.Context, context.CancelFunc) {
	return alive.While(ctx, func(why error) { fmt.Fprintln(env.Stderr, why) })
}
