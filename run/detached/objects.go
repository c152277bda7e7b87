package detached

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
)

// Annotations of a run's Job.
const (
	studyAnnotation   = "meshtrial.dev/study"   // also on its ClusterRole
	resultsAnnotation = "meshtrial.dev/results" // where they are, for display
	fetchedAnnotation = "meshtrial.dev/fetched"
	anchorAnnotation  = "meshtrial.dev/anchor" // the ClusterRole that owns everything
)

// The label that distinguishes the parts of a run.
const (
	partLabel  = "meshtrial.dev/part"
	partRun    = "run"
	partReader = "reader"
)

const (
	// retries is how often a failed pod is replaced, with increasing delay. Evicted, drained
	// and gracefully deleted pods do not count.
	retries = 4
	// codeFinal is the exit code of the last pod of a run ([Final]). The run itself fails
	// with the code of its error, which would not let the Job distinguish it from failures
	// that a retry may avoid.
	codeFinal = 9
	// replaceEnded creates the next pod only after the previous one has ended.
	replaceEnded = "Failed"
	// afterRestored is the time that a run needs in addition to reverting its changes.
	afterRestored = time.Minute
	// MaxStudy is the capacity of a ConfigMap, in bytes.
	MaxStudy = 1 << 20
)

// resultsVolume is the volume that readers of results also mount.
const resultsVolume = "results"

func labels(run, part string) map[string]string {
	return map[string]string{Label: run, partLabel: part, mesh.AppLabel: "meshtrial-detached", "app.kubernetes.io/part-of": "meshtrial", "sidecar.istio.io/inject": "false"}
}

// grace returns the termination grace period of the run's pod.
func (s Spec) grace() time.Duration { return s.Ending + afterRestored }

func stateName(run string) string { return objectName(run) + "-state" }

// pullSecret returns the Secret for pulling the images of the run's pods: the named one, or
// its copy in the run's namespace; nil if there is none to copy.
func (c *Cluster) pullSecret(ctx context.Context, s Spec) (*corev1.Secret, error) {
	from, name, named := strings.Cut(s.Images.PullSecret, "/")
	if !named || from == s.Namespace {
		return nil, nil
	}
	secret, err := c.kube.CoreV1().Secrets(from).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Secret of --pull-secret: %w", err)
	}
	return &corev1.Secret{Type: secret.Type, Data: secret.Data}, nil
}

// objects returns the objects that a run creates: the ClusterRole that owns everything, and
// the rest in order, the Job last.
func (s Spec) objects(secret *corev1.Secret) (anchor *unstructured.Unstructured, rest []*unstructured.Unstructured, err error) {
	if n := len(s.Source) + len(s.Resolved); n > MaxStudy {
		return nil, nil, errs.WithHint(errs.Usage("the study and the files that it names have %d bytes; a ConfigMap holds at most %d", n, MaxStudy),
			"run it without --detach")
	}
	text, err := rights.Manifests(s.Rights, s.Subject())
	if err != nil {
		return nil, nil, err
	}
	granted, err := lab.ParseObjects(text)
	if err != nil {
		return nil, nil, err
	}
	if s.OwnNamespace {
		rest = append(rest, s.object("v1", "Namespace", "", s.Namespace, nil))
	}
	for _, o := range granted {
		o.SetLabels(labels(s.Run, "rights"))
		switch {
		case o.GetKind() == "Namespace": // the journal's, which is reserved
		case o.GetKind() == "ClusterRole":
			anchor = o
		default:
			rest = append(rest, o)
		}
	}
	if anchor == nil {
		return nil, nil, fmt.Errorf("run %s has no cluster-wide rights", s.Run)
	}
	own := []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{stateName(s.Run)}, "verbs": []any{"get", "patch"}}}
	rest = append(rest,
		s.object("v1", "ServiceAccount", s.Namespace, s.Name(), nil),
		s.object(rbacGroup+"/v1", "Role", s.Namespace, s.Name(), map[string]any{"rules": own}),
		s.object(rbacGroup+"/v1", "RoleBinding", s.Namespace, s.Name(), map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": "Role", "name": s.Name()},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": s.Name(), "namespace": s.Namespace}}}),
		s.object("v1", "ConfigMap", s.Namespace, s.Name()+"-study", map[string]any{"data": map[string]any{
			store.FileStudy: string(s.Source), store.FileResolved: string(s.Resolved)}}),
		s.object("v1", "ConfigMap", s.Namespace, stateName(s.Run), map[string]any{"data": map[string]any{}}),
	)
	if secret != nil {
		secret.Name = s.Name() + "-pull"
		copied, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
		if err != nil {
			return nil, nil, err
		}
		rest = append(rest, s.object("v1", "Secret", s.Namespace, secret.Name, copied))
	}
	anchor.SetAnnotations(map[string]string{studyAnnotation: s.Study})
	job, err := s.job(anchor.GetName(), secret)
	return anchor, append(rest, job), err
}

// object returns one of the run's objects, with additional fields.
func (s Spec) object(version, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		o.Object[key] = value
	}
	o.Object["metadata"] = map[string]any{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels(s.Run, strings.ToLower(kind)))
	return o
}

// job returns the run's Job. Its pod ends with the exit codes of `meshtrial run`: errors that
// a retry cannot fix (2, [codeFinal]) and verdicts (3, 4) end the Job.
func (s Spec) job(anchor string, secret *corev1.Secret) (*unstructured.Unstructured, error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.pod(secret))
	if err != nil {
		return nil, err
	}
	ends := func(action string, codes ...any) map[string]any {
		return map[string]any{"action": action, "onExitCodes": map[string]any{"containerName": partRun, "operator": "In", "values": codes}}
	}
	job := s.object("batch/v1", "Job", s.Namespace, s.Name(), map[string]any{"spec": map[string]any{
		"completions": int64(1), "parallelism": int64(1), "backoffLimit": int64(retries),
		// The run's directory has a single writer: the next pod waits until this one has
		// ended.
		"podReplacementPolicy": replaceEnded,
		"podFailurePolicy": map[string]any{"rules": []any{
			map[string]any{"action": "Ignore", "onPodConditions": []any{map[string]any{"type": string(corev1.DisruptionTarget), "status": "True"}}},
			ends("Ignore", int64(errs.CodeInterrupted)),
			ends("FailJob", int64(errs.CodeUsage), int64(errs.CodeAssertion), int64(errs.CodeInvalid), int64(codeFinal)),
		}},
		"template": template,
	}})
	results := path.Join(s.Folder, s.Run)
	if s.Claim != "" {
		results = "pvc:" + s.Namespace + "/" + s.Claim
	}
	job.SetAnnotations(map[string]string{studyAnnotation: s.Study, resultsAnnotation: results, anchorAnnotation: anchor})
	return job, nil
}

// pod returns the run's pod: an ordinary pod, which uses nothing of the nodes except the
// volume.
func (s Spec) pod(secret *corev1.Secret) *corev1.PodTemplateSpec {
	pod := site.RolePod(partRun, s.Run, corev1.Container{
		Name: partRun, Args: s.Args,
		Env: []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "study", MountPath: GivenDir, ReadOnly: true},
			{Name: resultsVolume, MountPath: resultsDir},
			{Name: "tmp", MountPath: "/tmp"},
		},
	}, s.Images)
	pod.Labels = labels(s.Run, partRun)
	pod.Annotations = map[string]string{"linkerd.io/inject": "disabled"}
	spec := &pod.Spec
	// A node under memory pressure first evicts pods that exceed their requests.
	spec.Containers[0].Resources = site.Requests("500m", "1Gi")
	results := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.Folder, Type: site.Ptr(corev1.HostPathDirectory)}}
	if s.Claim != "" {
		results = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: s.Claim}}
	}
	spec.Volumes = []corev1.Volume{
		{Name: "study", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name() + "-study"}}}},
		{Name: resultsVolume, VolumeSource: results},
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: spec.Containers[0].SecurityContext.RunAsGroup, FSGroupChangePolicy: site.Ptr(corev1.FSGroupChangeOnRootMismatch)}
	spec.ServiceAccountName, spec.AutomountServiceAccountToken = s.Name(), site.Ptr(true)
	spec.RestartPolicy, spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, site.Ptr(int64(s.grace().Seconds()))
	spec.ImagePullSecrets = nil
	if _, named, pulls := strings.Cut(s.Images.PullSecret, "/"); pulls {
		if secret != nil {
			named = secret.Name
		}
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: named}}
	}
	return &pod
}
