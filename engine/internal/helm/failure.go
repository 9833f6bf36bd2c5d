package helm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"penstock.dev/engine/internal/call"
)

// Detail belongs to a failure of an action.
type Detail struct {
	// Answer is what the action did until then.
	Answer *Answer `json:"answer,omitempty"`
	// File and Line are where a template failed.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// kinds are the codes of failures; the first that fits is taken.
var kinds = []struct {
	code string
	fits func(error) bool
}{
	{"ReleaseNotFound", func(err error) bool {
		return errors.Is(err, driver.ErrReleaseNotFound) || errors.Is(err, driver.ErrNoDeployedReleases)
	}},
	{"SchemaViolation", says("values don't meet the specifications of the schema", "values.schema.json of chart ")},
	{"TemplateFailed", func(err error) bool { file, _ := position(err.Error()); return file != "" }},
	{crdMissing, missesKind},
	{"Immutable", says("field is immutable", "may not change once set")},
	{recordsForbidden, func(err error) bool { return apierrors.IsForbidden(err) && says(ofRecords)(err) }},
	{"Forbidden", func(err error) bool { return apierrors.IsForbidden(err) || says(" is forbidden: ")(err) }},
	{"HookFailed", says("pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback", "pre-delete", "post-delete")},
	{"Locked", says("another operation (install/upgrade/rollback) is in progress")},
	{"Conflict", func(err error) bool {
		return apierrors.IsConflict(err) || says("conflict occurred while applying", "invalid ownership metadata", "cannot reuse a name")(err)
	}},
	{recordTooLarge, largeRecord},
	{"Invalid", func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }},
}

const (
	crdMissing       = "CRDMissing"
	recordTooLarge   = "RecordTooLarge"
	recordsForbidden = "RecordsForbidden"
	ofRecords        = "the records of the release in Helm's storage: "
)

// remedies are told with the failures of which Helm's text leaves open what to do.
var remedies = map[string]string{
	recordsForbidden: "Helm keeps the records of a release in Secrets of its storage namespace: " +
		"allow the account to get, list, create, update and delete Secrets there, or set spec.storageNamespace",
	recordTooLarge: "the record of a release holds its chart, its values and its objects, compressed, and must fit into one Secret: " +
		"leave out of the chart what no template needs (.helmignore), or split the chart",
}

// largeRecord tells whether the API server refused a record for its size: as more than a Secret may
// hold, or as more than it reads of a request.
func largeRecord(err error) bool {
	return says(`Secret "sh.helm.release.`)(err) && says("Too long: may not be more than")(err) ||
		says("failed to create: Request entity too large", "failed to update: Request entity too large")(err)
}

// failedAt is where text/template says that it failed. Helm leaves its words out of an error with
// several levels, of which each begins a line.
var failedAt = regexp.MustCompile(`(?m)(?:template: |parse error at \(|execution error at \()([^\s:()]+):(\d+)` +
	`|(?:^|\s)([^\s:()]+/templates/[^\s:()]+):(\d+):\d+$`)

// position returns the file and the line of a template that failed; an empty file if none did.
func position(message string) (file string, line int) {
	found := failedAt.FindStringSubmatch(message)
	if found == nil {
		return "", 0
	}
	line, _ = strconv.Atoi(cmp.Or(found[2], found[4]))
	return cmp.Or(found[1], found[3]), line
}

// missesKind tells whether a kind is not served.
func missesKind(err error) bool { return meta.IsNoMatchError(err) || says("no matches for kind")(err) }

func says(texts ...string) func(error) bool {
	return func(err error) bool {
		for _, text := range texts {
			if strings.Contains(err.Error(), text) {
				return true
			}
		}
		return false
	}
}

func (r *run) explain(err error) error {
	failure := &call.Failure{Code: code(r.ctx, err), Message: err.Error()}
	detail := Detail{}
	if failure.Code == "TemplateFailed" {
		detail.File, detail.Line = position(failure.Message)
	}
	if r.journal != nil {
		if answer, err := r.answer(); err == nil {
			detail.Answer = answer
		}
	}
	failure.Message = r.redact(failure.Message, r.newest())
	if len(failure.Message) > maxMessage {
		failure.Message = strings.ToValidUTF8(failure.Message[:maxMessage], "") + "…"
	}
	if remedy := r.remedy(failure.Code); remedy != "" {
		failure.Message += ": " + remedy
	}
	failure.Detail, _ = json.Marshal(detail)
	return failure
}

func (r *run) remedy(code string) string {
	if code == crdMissing && r.releasing != "" && r.Options.CRDs != create && r.Options.CRDs != createReplace {
		return "if the chart defines the kind in its directory crds, set spec." + r.releasing + ".crds to Create or CreateReplace"
	}
	return remedies[code]
}

// maxMessage bounds what is told of a failure; a template may fail with its whole text.
const maxMessage = 8000

func (r *run) redact(text string, release *releasev1.Release) string {
	return redact(strings.ReplaceAll(text, host, ""), hidden(r.Request, release))
}

func (r *run) newest() *releasev1.Release {
	if r.journal == nil {
		return nil
	}
	for _, each := range r.journal.releases() {
		return each
	}
	return nil
}

func code(ctx context.Context, err error) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "Timeout"
	case ctx.Err() != nil:
		return "Cancelled"
	}
	for _, kind := range kinds {
		if kind.fits(err) {
			return kind.code
		}
	}
	return "Failed"
}
