package io.headrace.spark;

import java.lang.reflect.Field;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogWithListener;
import org.apache.spark.sql.catalyst.catalog.InMemoryCatalog;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps the names that a pipeline registers in a session out of the metastore behind it: they are in memory, in front of
 * the metastore's, and end with the process.
 *
 * <p>What a thread creates or drops while it registers concerns the names in memory alone, and it sees no table of the
 * metastore. Otherwise a name in memory hides one in the metastore, and everything else goes to the metastore.
 */
public final class OwnTables implements ExternalCatalog {
  private static final ThreadLocal<Boolean> REGISTERING = ThreadLocal.withInitial(() -> false);

  private final ExternalCatalog metastore;
  private final ExternalCatalog own;
  // Of schemas in memory; Spark creates it.
  private final URI folder;

  private OwnTables(ExternalCatalog metastore, ExternalCatalog own, URI folder) {
    this.metastore = metastore;
    this.own = own;
    this.folder = folder;
  }

  /** Put names in memory in front of a catalog, if they are not there yet. */
  public static void install(
      ExternalCatalogWithListener catalog, SparkConf conf, Configuration hadoop, String folder)
      throws ReflectiveOperationException {
    if (isInstalled(catalog)) {
      return;
    }
    // The sessions of a process share the catalog, and keep it; what it asks can only be replaced inside.
    Field field = ExternalCatalogWithListener.class.getDeclaredField("delegate");
    field.setAccessible(true);
    field.set(catalog, new OwnTables(catalog.unwrapped(), new InMemoryCatalog(conf, hadoop), URI.create(folder)));
  }

  /** Whether names in memory are in front of a catalog. */
  public static boolean isInstalled(ExternalCatalogWithListener catalog) {
    return catalog.unwrapped() instanceof OwnTables;
  }

  /** From now on, this thread registers names of the pipeline, or no longer does. */
  public static void setRegistering(boolean registering) {
    REGISTERING.set(registering);
  }

  /** Whether this thread registers names of the pipeline. */
  public static boolean isRegistering() {
    return REGISTERING.get();
  }

  private boolean has(String db, String table) {
    return own.databaseExists(db) && own.tableExists(db, table);
  }

  /** Who has a table. */
  private ExternalCatalog of(String db, String table) {
    return isRegistering() || has(db, table) ? own : metastore;
  }

  /** Who has a schema; the metastore if both have it. */
  private ExternalCatalog of(String db) {
    return own.databaseExists(db) && !metastore.databaseExists(db) ? own : metastore;
  }

  private static String databaseOf(CatalogTable table) {
    return table.identifier().database().isDefined() ? table.identifier().database().get() : "default";
  }

  private void createOwn(String db) {
    if (!own.databaseExists(db)) {
      own.createDatabase(new CatalogDatabase(db, "", folder, scala.collection.immutable.Map$.MODULE$.empty()), true);
    }
  }

  private static Seq<String> union(Seq<String> first, Seq<String> second) {
    TreeSet<String> names = new TreeSet<>(CollectionConverters.asJava(first));
    names.addAll(CollectionConverters.asJava(second));
    return CollectionConverters.asScala((List<String>) new ArrayList<>(names)).toSeq();
  }

  @Override
  public void createDatabase(CatalogDatabase definition, boolean ignoreIfExists) {
    if (isRegistering()) {
      createOwn(definition.name());
    } else {
      metastore.createDatabase(definition, ignoreIfExists);
    }
  }

  @Override
  public void dropDatabase(String db, boolean ignoreIfNotExists, boolean cascade) {
    metastore.dropDatabase(db, ignoreIfNotExists, cascade);
  }

  @Override
  public void alterDatabase(CatalogDatabase definition) {
    metastore.alterDatabase(definition);
  }

  @Override
  public CatalogDatabase getDatabase(String db) {
    return of(db).getDatabase(db);
  }

  @Override
  public boolean databaseExists(String db) {
    return own.databaseExists(db) || metastore.databaseExists(db);
  }

  @Override
  public Seq<String> listDatabases() {
    return union(own.listDatabases(), metastore.listDatabases());
  }

  @Override
  public Seq<String> listDatabases(String pattern) {
    return union(own.listDatabases(pattern), metastore.listDatabases(pattern));
  }

  @Override
  public void setCurrentDatabase(String db) {
    of(db).setCurrentDatabase(db);
  }

  @Override
  public void createTable(CatalogTable definition, boolean ignoreIfExists) {
    if (isRegistering()) {
      createOwn(databaseOf(definition));
      own.createTable(definition, ignoreIfExists);
    } else {
      metastore.createTable(definition, ignoreIfExists);
    }
  }

  @Override
  public void dropTable(String db, String table, boolean ignoreIfNotExists, boolean purge) {
    of(db, table).dropTable(db, table, ignoreIfNotExists, purge);
  }

  @Override
  public void renameTable(String db, String oldName, String newName) {
    of(db, oldName).renameTable(db, oldName, newName);
  }

  @Override
  public void alterTable(CatalogTable definition) {
    of(databaseOf(definition), definition.identifier().table()).alterTable(definition);
  }

  @Override
  public void alterTableDataSchema(String db, String table, StructType schema) {
    of(db, table).alterTableDataSchema(db, table, schema);
  }

  @Override
  public void alterTableSchema(String db, String table, StructType schema) {
    of(db, table).alterTableSchema(db, table, schema);
  }

  @Override
  public void alterTableStats(String db, String table, Option<CatalogStatistics> stats) {
    of(db, table).alterTableStats(db, table, stats);
  }

  @Override
  public CatalogTable getTable(String db, String table) {
    return of(db, table).getTable(db, table);
  }

  @Override
  public Seq<CatalogTable> getTablesByName(String db, Seq<String> tables) {
    List<String> others = new ArrayList<>();
    List<CatalogTable> found = new ArrayList<>();
    for (String table : CollectionConverters.asJava(tables)) {
      if (has(db, table)) {
        found.add(own.getTable(db, table));
      } else {
        others.add(table);
      }
    }
    if (!others.isEmpty() && !isRegistering() && of(db) == metastore) {
      found.addAll(
          CollectionConverters.asJava(metastore.getTablesByName(db, CollectionConverters.asScala(others).toSeq())));
    }
    return CollectionConverters.asScala(found).toSeq();
  }

  @Override
  public boolean tableExists(String db, String table) {
    return has(db, table) || (!isRegistering() && metastore.tableExists(db, table));
  }

  @Override
  public Seq<String> listTables(String db) {
    return listTables(db, "*");
  }

  @Override
  public Seq<String> listTables(String db, String pattern) {
    if (!own.databaseExists(db)) {
      return metastore.listTables(db, pattern);
    }
    Seq<String> inMemory = own.listTables(db, pattern);
    return of(db) == own ? inMemory : union(inMemory, metastore.listTables(db, pattern));
  }

  @Override
  public Seq<String> listViews(String db, String pattern) {
    return of(db).listViews(db, pattern);
  }

  @Override
  public void loadTable(String db, String table, String path, boolean overwrite, boolean local) {
    of(db, table).loadTable(db, table, path, overwrite, local);
  }

  @Override
  public void loadPartition(
      String db,
      String table,
      String path,
      Map<String, String> partition,
      boolean overwrite,
      boolean inheritTableSpecs,
      boolean local) {
    of(db, table).loadPartition(db, table, path, partition, overwrite, inheritTableSpecs, local);
  }

  @Override
  public void loadDynamicPartitions(
      String db, String table, String path, Map<String, String> partition, boolean replace, int number) {
    of(db, table).loadDynamicPartitions(db, table, path, partition, replace, number);
  }

  @Override
  public void createPartitions(String db, String table, Seq<CatalogTablePartition> parts, boolean ignoreIfExists) {
    of(db, table).createPartitions(db, table, parts, ignoreIfExists);
  }

  @Override
  public void dropPartitions(
      String db,
      String table,
      Seq<Map<String, String>> parts,
      boolean ignoreIfNotExists,
      boolean purge,
      boolean retainData) {
    of(db, table).dropPartitions(db, table, parts, ignoreIfNotExists, purge, retainData);
  }

  @Override
  public void renamePartitions(
      String db, String table, Seq<Map<String, String>> specs, Seq<Map<String, String>> newSpecs) {
    of(db, table).renamePartitions(db, table, specs, newSpecs);
  }

  @Override
  public void alterPartitions(String db, String table, Seq<CatalogTablePartition> parts) {
    of(db, table).alterPartitions(db, table, parts);
  }

  @Override
  public CatalogTablePartition getPartition(String db, String table, Map<String, String> spec) {
    return of(db, table).getPartition(db, table, spec);
  }

  @Override
  public Option<CatalogTablePartition> getPartitionOption(String db, String table, Map<String, String> spec) {
    return of(db, table).getPartitionOption(db, table, spec);
  }

  @Override
  public Seq<String> listPartitionNames(String db, String table, Option<Map<String, String>> spec) {
    return of(db, table).listPartitionNames(db, table, spec);
  }

  @Override
  public Seq<CatalogTablePartition> listPartitions(String db, String table, Option<Map<String, String>> spec) {
    return of(db, table).listPartitions(db, table, spec);
  }

  @Override
  public Seq<CatalogTablePartition> listPartitionsByFilter(
      String db, String table, Seq<Expression> predicates, String timeZone) {
    return of(db, table).listPartitionsByFilter(db, table, predicates, timeZone);
  }

  @Override
  public void createFunction(String db, CatalogFunction function) {
    metastore.createFunction(db, function);
  }

  @Override
  public void dropFunction(String db, String function) {
    metastore.dropFunction(db, function);
  }

  @Override
  public void alterFunction(String db, CatalogFunction function) {
    metastore.alterFunction(db, function);
  }

  @Override
  public void renameFunction(String db, String oldName, String newName) {
    metastore.renameFunction(db, oldName, newName);
  }

  @Override
  public CatalogFunction getFunction(String db, String function) {
    return metastore.getFunction(db, function);
  }

  @Override
  public boolean functionExists(String db, String function) {
    return of(db).functionExists(db, function);
  }

  @Override
  public Seq<String> listFunctions(String db, String pattern) {
    return of(db).listFunctions(db, pattern);
  }
}
