package cli

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/xds/control"
)

// serveXDSControl is the xds role: fleets on request, until ctx ends.
func serveXDSControl(ctx context.Context, env *Env, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("xds control: %w", err), errs.CodeUsage), "--control takes a free HOST:PORT, for instance 127.0.0.1:15983")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	fmt.Fprintf(env.Stderr, "control %s\n", listener.Addr())
	return control.NewServer(ctx, Version()).Serve(listener)
}
