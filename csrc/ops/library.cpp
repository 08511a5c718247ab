// Every operator's schema. Kernels join from csrc/cpu and csrc/cuda.
#include "elementary.h"
#include "embedding.h"
#include "embedding_bag.h"
#include "extremum.h"
#include "fingerprint.h"
#include "histogram.h"
#include "index_put.h"
#include "overwrite.h"
#include "reduce.h"
#include "running.h"
#include "scan.h"
#include "scatter_add.h"
#include "segment.h"

namespace reprocuda {

STABLE_TORCH_LIBRARY(reprocuda, library) {
  const auto define = [&](const auto& schemas) {
    for (const char* schema : schemas) {
      library.def(schema);
    }
  };
  define(kIndexAddSchemas);
  define(kScatterAddSchemas);
  define(kReduceSchemas);
  define(kIndexPutSchemas);
  define(kOverwriteSchemas);
  define(kExtremumSchemas);
  define(kEmbeddingSchemas);
  define(kSegmentSchemas);
  define(kEmbeddingBagSchemas);
  define(kHistogramSchemas);
  define(kScanSchemas);
  define(kRunningSchemas);
  define(kElementarySchemas);
  define(kFingerprintSchemas);
  // Test hooks: how by-index problems are solved, process-wide.
  library.def("_set_forced_algorithm(str name) -> ()");
  library.def("_set_first_stage(int stage) -> ()");
}

}  // namespace reprocuda
