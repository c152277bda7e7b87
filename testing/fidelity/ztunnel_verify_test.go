//go:build verify

package fidelity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/lab/components"
	meshkit "github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// TestSimulatedZtunnelIsLikeARealOne connects a real ztunnel, with the environment from
// Istio's charts, and a simulated one to the same discovery server, makes the same changes,
// drops their streams and lets them return, and compares what they sent, including the
// versions that they report holding.
func TestSimulatedZtunnelIsLikeARealOne(t *testing.T) {
	dir := labtest.Folder(t, "MESHTRIAL_ZTUNNEL")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	held := &held{of: map[string][]string{}}
	istiod := xdsserver.New(xdsserver.Configuration{
		wire.AddressType: {address(t, "Kubernetes//Pod/fidelity/one", "192.0.2.11", false), address(t, "Kubernetes//Pod/fidelity/two", "192.0.2.21", false),
			serviceAddress(t, "fidelity/one.fidelity.svc.cluster.local")},
		wire.AuthorizationType: {policy(t, "fidelity/deny")},
	}, grpc.StreamInterceptor(held.intercept))
	pair, root := selfSigned(t)
	recorder, err := NewRecorder(Options{Upstream: loopback.Serve(t, istiod.Serve, istiod.Close), UpstreamTLS: insecure.NewCredentials(),
		TLS: credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}})})
	must.OK(t, err)
	at := loopback.Serve(t, recorder.Serve, func() { recorder.Close() })

	ctx = realZtunnel(t, ctx, dir, at, root)
	still(t, ctx, recorder, 1, quiet)
	spec := xds.DefaultSpec(at)
	spec.Security = xds.Security{Mode: xds.SecurityToken, RootCA: root, ServerName: recorderName, Tokens: map[string]string{"": "token"}}
	spec.Proxies = []xds.Proxy{{Type: xds.NodeZtunnel, Name: "simulated", Namespace: "fidelity", IP: "192.0.2.1", Node: "lab"}}
	fleet, err := xds.Start(ctx, spec)
	must.OK(t, err)
	defer fleet.Stop()
	still(t, ctx, recorder, 2, quiet)
	for _, change := range []struct {
		mark string
		make xdsserver.Change
	}{
		{"a pod comes", xdsserver.Change{Type: wire.AddressType, Changed: []xdsserver.Resource{address(t, "Kubernetes//Pod/fidelity/three", "192.0.2.31", false)}}},
		{"it is not ready, and another one goes", xdsserver.Change{Type: wire.AddressType, Removed: []string{"Kubernetes//Pod/fidelity/two"},
			Changed: []xdsserver.Resource{address(t, "Kubernetes//Pod/fidelity/three", "192.0.2.31", true)}}},
		{"a policy comes", xdsserver.Change{Type: wire.AuthorizationType, Changed: []xdsserver.Resource{policy(t, "fidelity/more")}}},
		{"one goes", xdsserver.Change{Type: wire.AuthorizationType, Removed: []string{"fidelity/deny"}}},
	} {
		recorder.Mark(change.mark)
		istiod.Push(change.make)
		still(t, ctx, recorder, 2, quiet)
	}
	recorder.Drop()
	still(t, ctx, recorder, 4, quiet)
	all, err := recorder.Transcripts()
	must.OK(t, err)
	of := map[string][]*Transcript{}
	for _, tr := range all {
		of[podOf(tr.NodeID())] = append(of[podOf(tr.NodeID())], tr)
	}
	if len(of["real"]) != 2 || len(of["simulated"]) != 2 {
		t.Fatalf("%d streams of the real one, %d of the simulated", len(of["real"]), len(of["simulated"]))
	}
	for i, what := range []string{"connect", "reconnect"} {
		recorded := of["real"][i].Normalise(map[string]string{"real": "POD"})
		compare(t, what, recorded, of["simulated"][i].Normalise(map[string]string{"simulated": "POD"}), nil, Ztunnel...)
		if golden.Updating() {
			keep(t, recorded, "ztunnel-"+what)
		}
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if real, simulated := strings.Join(held.of["real"], "\n"), strings.Join(held.of["simulated"], "\n"); real != simulated || !strings.Contains(real, "Pod/fidelity/three@") {
		t.Errorf("the real one said that it holds\n%s\nand the simulated one\n%s", real, simulated)
	}
}

// podOf returns the pod's name in a node's identity.
func podOf(node string) string {
	name, _, _ := strings.Cut(strings.Split(node, "~")[2], ".")
	return name
}

// held records what clients report holding on their streams, with versions.
type held struct {
	mu sync.Mutex
	of map[string][]string // by pod
}

func (h *held) intercept(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &noting{s, h})
}

type noting struct {
	grpc.ServerStream
	held *held
}

func (n *noting) RecvMsg(m any) error {
	err := n.ServerStream.RecvMsg(m)
	request, ok := m.(*discovery.DeltaDiscoveryRequest)
	if err != nil || !ok || len(request.InitialResourceVersions) == 0 {
		return err
	}
	n.held.mu.Lock()
	defer n.held.mu.Unlock()
	pod := podOf(request.Node.GetId())
	for _, name := range slices.Sorted(maps.Keys(request.InitialResourceVersions)) {
		n.held.of[pod] = append(n.held.of[pod], request.TypeUrl+" "+name+"@"+request.InitialResourceVersions[name])
	}
	return nil
}

// asInstalled returns ztunnel's environment according to the charts of the pinned Istio, in a
// pod real of the namespace fidelity, and according to its images
// (pilot/docker/Dockerfile.ztunnel).
func asInstalled(t *testing.T) []string {
	t.Helper()
	builder, err := components.New(components.Options{})
	must.OK(t, err)
	supply, err := meshes.Named(study.MeshIstio).Supply(t.Context(), meshkit.Settings{"images": {"official"}, "ambient": {"true"}}, true)
	must.OK(t, err)
	made, err := supply.Install(t.Context(), builder)
	must.OK(t, err)
	for _, object := range slices.Concat(made.Stages...) {
		if object.GetKind() != "DaemonSet" || object.GetName() != "ztunnel" {
			continue
		}
		var set appsv1.DaemonSet
		must.OK(t, kuberuntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set))
		env := []string{"ISTIO_META_ISTIO_VERSION=1.31.0"}
		for _, e := range set.Spec.Template.Spec.Containers[0].Env {
			env = append(env, e.Name+"="+valueOf(t, set.Spec.Template.Spec.Containers[0], e))
		}
		return env
	}
	t.Fatal("the charts have no DaemonSet ztunnel")
	return nil
}

// valueOf returns the value that the kubelet would give a variable in a container of that
// pod.
func valueOf(t *testing.T, c corev1.Container, e corev1.EnvVar) string {
	t.Helper()
	if e.ValueFrom == nil {
		return e.Value
	}
	if field := e.ValueFrom.FieldRef; field != nil {
		value, ok := map[string]string{"metadata.name": "real", "metadata.namespace": "fidelity", "spec.nodeName": "lab", "spec.serviceAccountName": "default", "status.podIP": "192.0.2.1"}[field.FieldPath]
		if !ok {
			t.Fatalf("%s: what is %s?", e.Name, field.FieldPath)
		}
		return value
	}
	if of := e.ValueFrom.ResourceFieldRef; of != nil && of.Resource == "requests.cpu" {
		return strconv.FormatInt(c.Resources.Requests.Cpu().Value(), 10) // rounded up
	} else if of != nil && of.Resource == "limits.cpu" && c.Resources.Limits.Cpu().IsZero() {
		return strconv.Itoa(runtime.NumCPU())
	}
	t.Fatalf("%s: what is %v?", e.Name, e.ValueFrom)
	return ""
}

// realZtunnel runs ztunnel as installed, but without traffic and against this server, until
// the test ends. The returned context ends when ztunnel does.
func realZtunnel(t *testing.T, ctx context.Context, dir, at, root string) context.Context {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.pem")
	must.OK(t, os.WriteFile(file, []byte(root), 0o644))
	log, err := os.Create(filepath.Join(t.TempDir(), "ztunnel.log"))
	must.OK(t, err)
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "ztunnel"), "proxy", "ztunnel")
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), log, log
	cmd.Env = append(asInstalled(t), "XDS_ADDRESS=https://"+at, "XDS_ROOT_CA="+file, "AUTH_TOKEN=token", "CA_ADDRESS=https://127.0.0.1:1", "CA_ROOT_CA="+file, "PROXY_MODE=dedicated", "ENABLE_PROXY=false", "IPV6_ENABLED=false",
		"PROXY_WORKLOAD_INFO=fidelity/real/default")
	must.OK(t, cmd.Start())
	alive, over := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		over(fmt.Errorf("ztunnel ended: %v", cmd.Wait()))
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("ztunnel said\n%s", text)
		}
	})
	return alive
}

// selfSigned returns a certificate for the recorder, and the CA to verify it with.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	ca := certificateOf("fidelity CA")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	must.OK(t, err)
	return certificate(t, tls.Certificate{Certificate: [][]byte{root}, PrivateKey: key}), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}))
}

// fields encodes a message of strings by field number.
func fields(of map[protowire.Number]string) []byte {
	var b []byte
	for n := range protowire.Number(32) {
		if text, ok := of[n]; ok {
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), text)
		}
	}
	return b
}

func resource(typeURL, name string, body []byte) xdsserver.Resource {
	return xdsserver.Resource{Name: name, Any: &anypb.Any{TypeUrl: typeURL, Value: body}}
}

// address returns an istio.workload.Address of a pod.
func address(t *testing.T, uid, ip string, unhealthy bool) xdsserver.Resource {
	t.Helper()
	pod := fields(map[protowire.Number]string{1: uid[strings.LastIndexByte(uid, '/')+1:], 2: "fidelity", 3: string(netip.MustParseAddr(ip).AsSlice()), 7: "default", 9: "lab", 20: uid})
	if unhealthy {
		pod = protowire.AppendVarint(protowire.AppendTag(pod, 17, protowire.VarintType), 1)
	}
	return resource(wire.AddressType, uid, fields(map[protowire.Number]string{1: string(pod)}))
}

// serviceAddress returns an istio.workload.Address of a Service.
func serviceAddress(t *testing.T, name string) xdsserver.Resource {
	t.Helper()
	namespace, host, _ := strings.Cut(name, "/")
	return resource(wire.AddressType, name, fields(map[protowire.Number]string{2: string(fields(map[protowire.Number]string{1: "one", 2: namespace, 3: host}))}))
}

// policy returns an istio.security.Authorization.
func policy(t *testing.T, name string) xdsserver.Resource {
	t.Helper()
	namespace, own, _ := strings.Cut(name, "/")
	return resource(wire.AuthorizationType, name, fields(map[protowire.Number]string{1: own, 2: namespace}))
}
