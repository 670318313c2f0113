package io.headrace.spark;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.StageInfo;

/**
 * Adds up the time that the tasks of job groups took, by batch, until it is taken.
 *
 * <p>Spark sums it for each stage. Listeners get it once a stage, so this costs nothing that can be measured; Python would
 * have to ask for each stage.
 */
public final class ExecutorTimes extends SparkListener {
  private static final String GROUP = "spark.jobGroup.id";
  // As Spark's MicroBatchExecution names it.
  private static final String BATCH = "streaming.sql.batchId";
  private static final long NO_BATCH = -1;
  private static final long NANOS_PER_MS = 1_000_000;
  // Nobody may take the times of a group, such as one of a user's own jobs.
  private static final int MOST_GROUPS = 1000;
  private static final int MOST_BATCHES = 1000;

  private final Map<Integer, Key> stages = new HashMap<>();
  private final Map<String, TreeMap<Long, long[]>> groups =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, TreeMap<Long, long[]>> eldest) {
          return size() > MOST_GROUPS;
        }
      };

  private record Key(String group, long batch) {}

  @Override
  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties properties = event.properties();
    String group = properties == null ? null : properties.getProperty(GROUP);
    if (group != null) {
      stages.put(event.stageInfo().stageId(), new Key(group, batch(properties)));
    }
  }

  @Override
  public synchronized void onStageCompleted(SparkListenerStageCompleted event) {
    StageInfo stage = event.stageInfo();
    Key key = stages.remove(stage.stageId());
    TaskMetrics metrics = stage.taskMetrics();
    if (key == null || metrics == null) {
      return;
    }
    TreeMap<Long, long[]> batches = groups.computeIfAbsent(key.group, group -> new TreeMap<>());
    long[] sums = batches.computeIfAbsent(key.batch, batch -> new long[2]);
    sums[0] += metrics.executorRunTime();
    sums[1] += metrics.executorCpuTime();
    if (batches.size() > MOST_BATCHES) {
      batches.pollFirstEntry();
    }
  }

  /**
   * The times of a group since they were last taken, and forgets them.
   *
   * @param group the job group
   * @param last the last batch to include
   * @return a line for each batch: its number, -1 for none; milliseconds of running tasks; milliseconds of processor
   *     time
   */
  public synchronized String take(String group, long last) {
    TreeMap<Long, long[]> batches = groups.get(group);
    if (batches == null) {
      return "";
    }
    StringBuilder text = new StringBuilder();
    Map<Long, long[]> taken = batches.headMap(last, true);
    taken.forEach(
        (batch, sums) ->
            text.append(batch).append(' ').append(sums[0]).append(' ').append(sums[1] / NANOS_PER_MS).append('\n'));
    taken.clear();
    if (batches.isEmpty()) {
      groups.remove(group);
    }
    return text.toString();
  }

  /** Waits until all events so far have arrived, or for a time; Spark hands them on in a thread of its own. */
  public static void settle(SparkContext context, long timeoutMs) throws InterruptedException {
    try {
      context.listenerBus().waitUntilEmpty(timeoutMs);
    } catch (java.util.concurrent.TimeoutException late) {
      // The rest belongs to what is taken next.
    }
  }

  private static long batch(Properties properties) {
    String text = properties.getProperty(BATCH);
    try {
      return text == null ? NO_BATCH : Long.parseLong(text);
    } catch (NumberFormatException other) {
      return NO_BATCH;
    }
  }
}
