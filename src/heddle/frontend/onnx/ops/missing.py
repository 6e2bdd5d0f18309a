"""What of the standard is missing, and why: whole operators with the nearest rewrite, and forms of those that
are there. Messages and docs/onnx-support.md say it."""

from __future__ import annotations

from heddle.frontend.onnx.registry import lacks, refuses

_MAPS = ("maps are no values of ours", "export without maps, with skl2onnx as options={'zipmap': False}")
_ML = ("no converter yet", "let the exporter write operators of the default domain")

refuses("ImageDecoder", "images are decoded outside of the model", "give the decoded image as an input")
refuses("MaxRoiPool", "no operator of ours yet", "use RoiAlign with mode='max'")
refuses(
    "Gradient",
    "the importer does not differentiate",
    "write the gradient's graph into the model",
    domain="ai.onnx.preview.training",
)
for _name in ("CastMap", "DictVectorizer", "ZipMap"):
    refuses(_name, *_MAPS, domain="ai.onnx.ml")
for _name in (
    "CategoryMapper",
    "FeatureVectorizer",
    "Imputer",
    "LinearClassifier",
    "Normalizer",
    "OneHotEncoder",
    "SVMClassifier",
    "SVMRegressor",
):
    refuses(_name, *_ML, domain="ai.onnx.ml")
for _name in ("TreeEnsembleClassifier", "TreeEnsembleRegressor"):
    refuses(
        _name,
        "no converter yet",
        "export for operator set 5 of ai.onnx.ml, which has TreeEnsemble",
        domain="ai.onnx.ml",
    )

lacks("BatchNormalization", "statistics as outputs outside of training")
lacks("If", "branches that give tensors of different ranks, where the condition is known only at run time")
lacks("MaxPool", "the indices of maxima (output 1)")
lacks("RegexFullMatch", "every form: a regular expression of a model could match for ever")
lacks("Reshape", "a shape whose number of elements is known only at run time")
lacks(
    "Resize", "antialiasing with modes of positions other than half_pixel, pytorch_half_pixel and asymmetric"
)
lacks("Scan", "lengths of sequences in operator set 8")
lacks("TfIdfVectorizer", "pools of strings")
lacks("TreeEnsemble", "transforms of the results", domain="ai.onnx.ml")
lacks("LinearRegressor", "transforms of the results", domain="ai.onnx.ml")
