package worker

import (
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// maxConfigBytes limits a configuration: a million samples and some.
const maxConfigBytes = 32 << 20

func (w *Worker) controlServer(l net.Listener) (server, error) {
	mux := w.health(http.NewServeMux())
	jsonhttp.HandleClock(mux)
	jsonhttp.Handle(mux, "GET /v1/counters", func(*http.Request, jsonhttp.None) (control.Counters, error) { return w.Counters(), nil })
	jsonhttp.Handle(mux, "GET /v1/config", func(*http.Request, jsonhttp.None) (control.Config, error) { return w.active.Load().config, nil })
	mux.HandleFunc("POST /v1/config", w.setConfig(control.ParseConfig))
	mux.HandleFunc("PATCH /v1/config", w.setConfig(func(data []byte) (control.Config, error) { return merged(w.active.Load().config, data) }))
	s, err := jsonhttp.Server{Name: "worker control", Handler: mux, MaxRequest: maxConfigBytes, Token: w.options.Token, Log: w.options.Log}.HTTP(l)
	if err != nil {
		return server{}, err
	}
	s.WriteTimeout = time.Minute
	return httpServer(s, func() error { return s.Serve(l) }), nil
}

// setConfig configures the worker as a request says.
func (w *Worker) setConfig(parse func([]byte) (control.Config, error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		data, ok := jsonhttp.ReadBody(rw, r)
		if !ok {
			return
		}
		config, err := parse(data)
		if err == nil {
			config, err = w.configure(config)
		}
		if err != nil {
			jsonhttp.Reject(rw, err)
			return
		}
		w.options.Log.Info("configuration changed", "version", config.Version)
		jsonhttp.Answer(rw, config)
	}
}

// merged applies a merge patch to a configuration.
func merged(config control.Config, patch []byte) (control.Config, error) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return config, errs.Usage("worker configuration: %w", err)
	}
	if _, ok := change["version"]; !ok {
		return config, errs.WithHint(errs.Usage("the patch has no version"), "give the version that it applies to, from GET /v1/config")
	}
	text, err := json.Marshal(config)
	if err != nil {
		return config, err
	}
	var target map[string]any
	if err := json.Unmarshal(text, &target); err != nil {
		return config, err
	}
	mergeInto(target, change)
	if text, err = json.Marshal(target); err != nil {
		return config, err
	}
	return control.ParseConfig(text)
}

func mergeInto(target, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := target[key].(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap && wasMap:
			mergeInto(old, inner)
		default:
			target[key] = value
		}
	}
}
