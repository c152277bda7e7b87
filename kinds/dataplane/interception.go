package dataplane

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/study"
)

// FactorInterception is how connections reach the sidecars.
const FactorInterception = "interception"

// Levels of [FactorInterception].
const (
	InterceptionRedirect = "redirect"
	InterceptionNone     = "none"
)

var interceptionFactor = ofProxies(study.Choice(FactorInterception, study.ScopeProxies, InterceptionRedirect,
	"How connections reach the sidecars: redirect uses packet filter rules in the pod, Istio's default; with none, the client connects to its sidecar's listener on loopback, and the Service points to a port of the server's sidecar. For HTTP and gRPC without the generator's own TLS.",
	InterceptionRedirect, InterceptionNone).
	Labelled(study.Says("interception %s")).Shortened(study.Says("no-redirect")))

// checkInterception finds settings that require redirection.
func checkInterception(d *study.Decoder, s *study.Study) {
	if !slices.Contains(s.Levels(FactorInterception), InterceptionNone) {
		return
	}
	at := s.Place(FactorInterception)
	if d.Root.Get("hops") != nil {
		at = d.Pos("hops")
	}
	switch {
	case s.Mesh != study.MeshIstio:
		d.Fail(at, study.CodeConflict, "leave it out, or mesh: istio", "interception none works only with Istio's sidecars, and the mesh is %s", s.Mesh)
	case speaks(s, headless) != "":
		name := speaks(s, headless)
		d.Fail(at, study.CodeConflict, "leave "+name+" out", "without redirection a sidecar finds the Service by the request's host, and %s has none", strings.ToUpper(name))
	case s.Load.TLS:
		d.Fail(at, study.CodeConflict, "leave load.tls out", "without redirection a sidecar finds the Service by the request's host, which it cannot read if the generator uses TLS")
	}
}
