package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/worker"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// off is the value of an address flag that turns its listener off.
const off = "off"

// workerFlags holds the flags of `meshtrial worker`.
type workerFlags struct {
	options    worker.Options
	listen     map[string]*string // by listener
	configFile string
	tokenFile  string

	logRequests, json, verbose bool
}

func newWorkerCommand(env *Env) *cobra.Command {
	f := workerFlags{listen: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Serve the workload under test: any node of a service graph",
		Long: "worker answers requests over HTTP/1.1, HTTP/2, gRPC, TCP and HTTPS with a configured\n" +
			"size and service time, after calling other workers, with limited concurrency, and\n" +
			"failing as configured. It counts what it served. It serves until interrupted, then\n" +
			"finishes pending requests unless configured otherwise.\n\n" +
			"Its behaviour is one document, given at the start (--config) or changed at run time over\n" +
			"its control server. The control server has no access control and stays on a loopback\n" +
			"address, unless a token is given.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := f.read(cmd.Context(), env)
			if err != nil {
				return err
			}
			return runWorker(cmd.Context(), env, options, f.json)
		},
	}
	f.add(cmd)
	return cmd
}

// add adds the flags to a command.
func (f *workerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	address := func(value *string, name string, preset string, usage string) {
		flags.StringVar(value, name, preset, usage+`, or "off"`)
	}
	address(&f.options.Control, "control", fmt.Sprintf("127.0.0.1:%d", control.ControlPort), "loopback `address` of the control server")
	address(&f.options.Health, "health", fmt.Sprintf(":%d", control.HealthPort), "`address` for health probes, which are not counted")
	for _, e := range protocol.Endpoints() {
		f.listen[e.Listener] = new(string)
		preset, usage := fmt.Sprintf(":%d", e.Port), "`address` for "+e.Doc
		if e.TLS {
			preset, usage = off, fmt.Sprintf("%s, such as :%d", usage, e.Port)
		}
		address(f.listen[e.Listener], e.Flag, preset, usage)
	}
	flags.StringVar(&f.configFile, "config", "", "`FILE` with the complete behaviour, in the format of GET /v1/config, or the JSON document itself (default: echo requests)")
	flags.StringVar(&f.tokenFile, "control-token-file", "", "`FILE` with a token that callers of the control server must send; it may then listen on any address")
	flags.IntVar(&f.options.MaxConnections, "max-connections", 10_000, "maximum number of connections; further ones are closed")
	flags.DurationVar(&f.options.DrainTimeout, "drain-timeout", 10*time.Second, "time limit for pending requests after an interrupt")
	flags.BoolVar(&f.logRequests, "log-requests", false, "print a JSON line for every request that has an x-request-id")
	flags.BoolVar(&f.json, "json", false, "print the addresses when ready and the counters at the end as JSON lines")
	flags.BoolVar(&f.verbose, "verbose", false, "log what happens to standard error")
}

// read returns a worker's options from its flags.
func (f *workerFlags) read(ctx context.Context, env *Env) (worker.Options, error) {
	o := f.options
	o.Listen = map[string]string{}
	for listener, address := range f.listen {
		if *address != off {
			o.Listen[listener] = *address
		}
	}
	for _, address := range []*string{&o.Control, &o.Health} {
		if *address == off {
			*address = ""
		}
	}
	var err error
	o.Config.ResponseBytes = control.EchoBody
	if f.configFile != "" {
		if o.Config, err = readWorkerConfig(ctx, f.configFile); err != nil {
			return o, err
		}
	}
	if o.Token, err = readToken(ctx, f.tokenFile); err != nil {
		return o, err
	}
	o.Crash = func() { os.Exit(crashCode) }
	if f.logRequests {
		if f.json {
			return o, errs.Usage("--log-requests and --json both write to standard output: use one of them")
		}
		o.RequestLog = env.Stdout
	}
	if f.verbose {
		o.Log = slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return o, nil
}

// runWorker serves until it is interrupted. It prints where it listens, and at the end what it
// served.
func runWorker(ctx context.Context, env *Env, options worker.Options, asJSON bool) error {
	w, err := worker.New(options)
	if err != nil {
		return err
	}
	addresses := w.Addresses()
	out := json.NewEncoder(env.Stdout)
	if asJSON {
		if err := out.Encode(map[string]any{"schema": control.Schema, "addresses": addresses}); err != nil {
			w.Close()
			return err
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(addresses)) {
			fmt.Fprintf(env.Stderr, "%-11s %s\n", name, addresses[name])
		}
	}
	err = w.Serve(ctx)
	if asJSON {
		if encodeErr := out.Encode(w.Counters()); err == nil {
			err = encodeErr
		}
	} else {
		printServed(env, w.Counters())
	}
	return err
}

// maxConfig limits the size of a file that describes a worker's behaviour, in bytes: enough for a
// million recorded times.
const maxConfig = 32 << 20

// crashCode is the exit code of a worker that was commanded to crash.
const crashCode = 70

// readWorkerConfig reads a behaviour from a file, or from text itself.
func readWorkerConfig(ctx context.Context, text string) (control.Config, error) {
	data, where := []byte(text), "--config"
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		var err error
		if data, err = readInput(ctx, text, maxConfig); err != nil {
			return control.Config{}, err
		}
		where = text
	}
	config, err := control.ParseConfig(data)
	if err != nil {
		return config, fmt.Errorf("%s: %w", where, err)
	}
	return config, nil
}

// readToken reads a secret from a file. It returns "" if path is "".
func readToken(ctx context.Context, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := readInput(ctx, path, app.MaxSecret)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 16 {
		return "", errs.Usage("%s: a token must have at least 16 characters", path)
	}
	return token, nil
}

func printServed(env *Env, c control.Counters) {
	for _, name := range slices.Sorted(maps.Keys(c.Protocols)) {
		p := c.Protocols[name]
		if p.Connections == 0 && p.Requests == 0 {
			continue
		}
		fmt.Fprintf(env.Stderr, "%-11s %s on %s", name, words.Plural(p.Requests, "request"), words.Plural(p.Connections, "connection"))
		for _, status := range slices.Sorted(maps.Keys(p.Status)) {
			fmt.Fprintf(env.Stderr, ", %s: %d", status, p.Status[status])
		}
		fmt.Fprintln(env.Stderr)
	}
}
