package cli

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
)

// parseMeshes parses --mesh.
func parseMeshes(text string) ([]string, error) {
	var names []string
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case !slices.Contains(study.Meshes(), name):
			return nil, errs.WithHint(errs.Usage("unknown mesh %q", name), "istio, linkerd, both as istio,linkerd, or none")
		case slices.Contains(names, name):
			return nil, errs.Usage("--mesh names %s twice", name)
		}
		names = append(names, name)
	}
	if !slices.Contains(names, study.MeshNone) {
		return names, nil
	}
	if len(names) > 1 {
		return nil, errs.Usage("--mesh is none or names meshes, not both")
	}
	return nil, nil
}

// addMeshes completes m from the flags of lab up. --linkerd adds Linkerd to the meshes unless
// --mesh is given too.
func addMeshes(m *app.LabMeshes, mesh string, meshGiven, official bool) error {
	var err error
	if m.Names, err = parseMeshes(mesh); err != nil {
		return err
	}
	has := slices.Contains(m.Names, study.MeshLinkerd)
	switch {
	case m.Linkerd != "" && !has && meshGiven:
		return errs.WithHint(errs.Usage("--linkerd says where Linkerd comes from, but --mesh %s leaves it out", mesh), "--mesh istio,linkerd installs both")
	case m.Linkerd != "" && !has:
		m.Names = append(m.Names, study.MeshLinkerd)
	case !has && len(m.LinkerdSet) > 0:
		return errs.Usage("--linkerd-set requires --linkerd")
	case has && m.Linkerd == "" && official:
		m.Linkerd = "edge"
	}
	m.Ambient = m.Ambient || m.Ztunnel != ""
	switch {
	case m.Ambient && !slices.Contains(m.Names, study.MeshIstio):
		return errs.WithHint(errs.Usage("an ambient mesh is Istio's, but --mesh %s leaves it out", mesh), "--mesh istio, or with others istio,linkerd")
	case m.GatewayAPI && !slices.Contains(m.Names, study.MeshIstio):
		return errs.WithHint(errs.Usage("the Gateway API is for Istio's gateways, but --mesh %s leaves Istio out", mesh), "--mesh istio, or with others istio,linkerd")
	case m.Ztunnel != "" && official:
		return errs.Usage("--ztunnel requires --images built: the official images have a ztunnel of their own")
	}
	return m.Resolve(official)
}
