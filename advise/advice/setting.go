package advice

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// setting describes how to set a lever.
type setting struct {
	do   string // an imperative sentence without a full stop
	yaml string // the manifest; "" for none
	back string
}

// namespace is istiod's namespace, and the root namespace unless the mesh configuration
// names another.
const namespace = "istio-system"

func (e *Evidence) deployment() string { return cmp.Or(e.Deployment, "istiod") }
func (e *Evidence) root() string       { return cmp.Or(e.Root, namespace) }

// kubectl returns a command on istiod's Deployment.
func (e *Evidence) kubectl(command string) string {
	return "kubectl -n " + namespace + " " + command + " deployment/" + e.deployment()
}

func (e *Evidence) rollBack() string { return e.kubectl("rollout undo") }

// patch returns a manifest that sets one lever of istiod's Deployment. Each lever has its
// own field manager: the API server removes what a manager applied before and does not
// apply now.
func (e *Evidence) patch(f study.Factor, spec string) string {
	return "# kubectl apply --server-side --field-manager=tuning-" + strings.ReplaceAll(f.Name, "_", "-") +
		" -f FILE\n" +
		"# (with --force-conflicts where the installation sets the same field)\n" +
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + e.deployment() + ", namespace: " + namespace +
		"}\n" + spec
}

// patchContainer returns a patch of istiod's container.
func (e *Evidence) patchContainer(f study.Factor, field string) string {
	return e.patch(f, "spec:\n  template:\n    spec:\n      containers:\n      - name: discovery\n        "+field+"\n")
}

// meshConfig returns a fragment of the mesh configuration.
func meshConfig(fields string) string {
	return "# merge into the installation's values (helm: meshConfig of the chart istiod; istioctl:" +
		" spec.meshConfig)\n" +
		"meshConfig:\n" + fields
}

// settingOf describes how to set a lever to a level from its current one.
func settingOf(f study.Factor, level, now string, e *Evidence) setting {
	s := setting{do: "Set " + f.Name + " to " + level, back: "put " + f.Name + " back to what it was"}
	switch {
	case f.Lever.Env != "":
		return environment(f, level, now, e)
	case f.Lever.ProxyMetadata != "":
		s.do = "Set " + f.Lever.ProxyMetadata + " of all sidecars to " + level
		s.yaml = meshConfig(fmt.Sprintf("  defaultConfig:\n    proxyMetadata: {%s: %q}\n", f.Lever.ProxyMetadata,
			level))
		return s
	}
	switch f.Name {
	case controlplane.FactorIstiodCPU:
		return resources(f, "limits", "cpu", level, e)
	case controlplane.FactorIstiodMemory:
		return resources(f, "limits", "memory", level, e)
	case controlplane.FactorIstiodCPURequest:
		return resources(f, "requests", "cpu", level, e)
	case controlplane.FactorIstiodMemRequest:
		return resources(f, "requests", "memory", level, e)
	case controlplane.FactorConnectionAge:
		s.do = "Let connections to istiod become " + level +
			" old (a connection that ends may be made to another replica)"
		s.yaml = "# merge into the installation's values (helm: of the chart istiod; istioctl: spec.values.pilot)\n" +
			"keepaliveMaxServerConnectionAge: " + level + "\n"
	case controlplane.FactorIstiodReplicas:
		s.do = "Run " + level + " replicas of istiod (where an autoscaler sets their number, raise its minReplicas)"
		s.yaml = e.patch(f, "spec: {replicas: "+level+"}\n")
		if now == "" || now == study.LevelInstalled {
			now = f.Usual
		}
		s.back = e.kubectl("scale") + " --replicas=" + now
	case controlplane.FactorSidecarScope:
		s = sidecar(record.Cell{f.Name: level}, e.root())
		s.do += " (this one lets in no host of another namespace than " + namespace +
			": meshtrial assess config --lab cluster --generate DIR makes those of who calls whom)"
	case controlplane.FactorExportTo:
		s.do = "Show Services, VirtualServices and DestinationRules in " + level + " where they do not say otherwise"
		if level == "." {
			s.do += " (first those that gateways or other namespaces use must say so, Services by the annotation" +
				" networking.istio.io/exportTo: no gateway of another namespace reaches the rest)"
		}
		s.yaml = meshConfig(fmt.Sprintf("  defaultServiceExportTo: [%q]\n  defaultVirtualServiceExportTo: [%q]\n"+
			"  defaultDestinationRuleExportTo: [%q]\n", level, level, level))
	case controlplane.FactorDiscoverySelectors:
		s.do = "Let istiod watch only the namespaces with " + level
		s.yaml = meshConfig("  discoverySelectors:\n  - " + selector(level) + "\n")
	case controlplane.FactorOutboundPolicy:
		s.do = "Set outboundTrafficPolicy to " + level
		s.yaml = meshConfig("  outboundTrafficPolicy: {mode: " + level + "}\n")
	}
	return s
}

// environment sets a variable of istiod's environment. It writes the default level as the
// default that this istiod reports.
func environment(f study.Factor, level, now string, e *Evidence) setting {
	name, value := f.Lever.Env, level
	if e.Known != nil {
		if v, ok := e.Known.Variable(name); ok && level == study.LevelDefault {
			value = v.Default
		}
	}
	s := setting{do: fmt.Sprintf("Set %s=%s in istiod's environment", name, value)}
	if level == study.LevelDefault {
		s.do = fmt.Sprintf("Take %s out of istiod's environment, or set it to what istiod has built in", name)
	}
	if value != study.LevelDefault {
		s.yaml = e.patchContainer(f, fmt.Sprintf("env: [{name: %s, value: %q}]", name, value))
	}
	switch now {
	case "", study.LevelInstalled:
		s.back = e.rollBack()
	case study.LevelDefault, study.LevelNone:
		s.back = e.kubectl("set env") + " " + name + "-"
	default:
		s.back = e.kubectl("set env") + " " + name + "=" + now
	}
	return s
}

// selector selects the namespaces that istiod watches by the presence or absence of a
// label.
func selector(level string) string {
	if key, value, not := strings.Cut(level, "!="); not {
		return fmt.Sprintf("matchExpressions:\n    - {key: %q, operator: NotIn, values: [%q]}", key, value)
	}
	key, value, _ := strings.Cut(level, "=")
	return fmt.Sprintf("matchLabels: {%q: %q}", key, value)
}

// resources sets a limit or a request of istiod.
func resources(f study.Factor, part, resource, level string, e *Evidence) setting {
	name := resource + " " + strings.TrimSuffix(part, "s")
	if level == study.LevelNone {
		return setting{do: "Take istiod's " + name + " away", back: e.rollBack()}
	}
	return setting{do: "Set istiod's " + name + " to " + level, back: e.rollBack(),
		yaml: e.patchContainer(f, fmt.Sprintf("resources: {%s: {%s: %q}}", part, resource, level))}
}

// AnyNamespace is the placeholder in manifests for each namespace that a setting concerns.
const AnyNamespace = "NAMESPACE"

// sidecar returns the Sidecar resource of a cell. For the whole mesh it is the one that
// Istio's documentation recommends, unless the cell names hosts.
func sidecar(cell record.Cell, root string) setting {
	scope := cell[controlplane.FactorSidecarScope]
	if scope == controlplane.SidecarScopeNone {
		return setting{do: "Delete the Sidecar resources", back: "apply the former Sidecar resources"}
	}
	in := AnyNamespace
	var b strings.Builder
	b.WriteString("# kubectl apply -f FILE; add each host of another namespace that workloads call\n" +
		"apiVersion: networking.istio.io/v1\nkind: Sidecar\n")
	if scope == controlplane.SidecarScopeMesh {
		in = root
		b.WriteString("# for the whole mesh in its root namespace (rootNamespace of the mesh configuration) alone\n")
	}
	fmt.Fprintf(&b, "metadata: {name: default, namespace: %s}\nspec:\n", in)
	if scope == controlplane.SidecarScopeWorkload {
		b.WriteString("  workloadSelector: {labels: {app: WORKLOAD}}\n")
	}
	if policy := cell[controlplane.FactorOutboundPolicy]; policy != "" {
		fmt.Fprintf(&b, "  outboundTrafficPolicy: {mode: %s}\n", policy)
	}
	b.WriteString("  egress:\n  - hosts:\n")
	for host := range strings.SplitSeq(cmp.Or(cell[controlplane.FactorSidecarHosts], "./*,"+namespace+"/*"), ",") {
		fmt.Fprintf(&b, "    - %q\n", strings.TrimSpace(host))
	}
	return setting{do: "Give proxies the configuration that they need by a Sidecar resource of scope " + scope,
		yaml: b.String(), back: "kubectl -n " + in + " delete sidecar default"}
}
