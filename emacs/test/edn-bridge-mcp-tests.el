;;; edn-bridge-mcp-tests.el --- Tests of the MCP servers  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)
(require 'edn-bridge-mcp)

(defconst edn-bridge-mcp-tests-servers
  [(:name "files" :source "user" :transport "stdio" :target "npx server"
    :enabled t :state "ready" :protocol-version "2025-11-25"
    :tools [(:name "mcp__files__look" :tool "look" :description "Looks\u202E."
             :read-only t :enabled t)
            (:name "mcp__files__put" :tool "put" :description "Puts."
             :read-only :false :enabled :false)]
    :prompts [(:name "mcp__files__ask" :prompt "ask" :description "Asks."
               :arguments [(:name "who" :required t)])]
    :resources [(:uri "file:///a" :name "a" :description "")]
    :resource-count 1 :completes t :problems ["too long: x"])
   (:name "web" :source "project" :transport "http" :target "https://h.example"
    :enabled :false :state "failed" :tools [] :prompts [] :resources []
    :resource-count 0 :last-error "no answer" :problems [])]
  "Servers as the bridge lists them.")

(ert-deftest edn-bridge-mcp-servers-are-shown-and-switched ()
  (edn-bridge-test-with-chat (conn sent)
    (save-window-excursion
      (insert "/mcp")
      (edn-bridge-input-send)
      (edn-bridge-test-answer conn sent "list_mcp"
                              :servers edn-bridge-mcp-tests-servers)
      (with-current-buffer "*edn-bridge: test servers*"
        (should (equal (buffer-string)
                       (concat "[x] files  ready  2 tools  1 prompt"
                               "  1 resource  2025-11-25\n"
                               "      npx server\n"
                               "[ ] web  failed  of the project\n"
                               "      https://h.example\n"
                               "      no answer\n")))
        (goto-char (point-min))
        (edn-bridge-mcp-fold)
        (should (string-search
                 (concat "      [x] look  (only reads, it says)  Looks\\u{202E}.\n"
                         "      [ ] put  Puts.\n"
                         "      /mcp__files__ask  Asks.\n"
                         "      @files:file:///a  \n"
                         "      too long: x\n")
                 (buffer-string)))
        ;; A tool.
        (search-forward "[ ] put")
        (edn-bridge-mcp-toggle)
        (should (equal (plist-get (car sent) :op) "set_mcp"))
        (should (equal (plist-get (car sent) :params)
                       '(:server "files" :tool "mcp__files__put" :enabled t)))
        (edn-bridge-test-answer
         conn sent "set_mcp"
         :server '(:name "files" :source "user" :state "ready" :enabled t
                   :tools [(:name "mcp__files__put" :tool "put"
                            :description "Puts." :enabled t)]))
        (should (string-search "[x] put" (buffer-string)))
        (should (equal (cdr (edn-bridge-mcp--place)) "mcp__files__put"))
        ;; A server.
        (edn-bridge-mcp-next)
        (should (equal (edn-bridge-mcp--place) '("web")))
        (edn-bridge-mcp-toggle)
        (should (equal (plist-get (car sent) :params)
                       '(:server "web" :enabled t)))
        (edn-bridge-mcp-restart)
        (should (equal (plist-get (car sent) :op) "restart_mcp"))
        (edn-bridge-test-answer
         conn sent "restart_mcp"
         :server '(:name "web" :source "project" :state "failed" :enabled t
                   :last-error "it\u202E ended"))
        (should (string-search "it\\u{202E} ended" (buffer-string)))
        (kill-buffer)))))

(ert-deftest edn-bridge-mcp-servers-are-shown-again-when-they-change ()
  (edn-bridge-test-with-chat (conn sent)
    (save-window-excursion
      (save-current-buffer
        (edn-bridge-mcp))
      (edn-bridge-test-answer conn sent "list_mcp" :servers [])
      (let ((buffer (get-buffer "*edn-bridge: test servers*")))
        (should (string-search "No MCP servers" (with-current-buffer buffer
                                              (buffer-string))))
        (edn-bridge-test-event conn "mcp/updated" :session-id "s"
                               :servers [(:name "files" :enabled t
                                          :state "ready" :tools 1)])
        (should (seq-find (lambda (frame)
                            (equal (plist-get frame :op) "get_commands"))
                          sent))
        (edn-bridge-test-answer conn sent "list_mcp"
                                :servers edn-bridge-mcp-tests-servers)
        (should (string-search "[x] files" (with-current-buffer buffer
                                             (buffer-string))))
        (kill-buffer buffer))
      (should (equal (edn-bridge-mcp-reference-names) '("files:"))))))

(ert-deftest edn-bridge-mcp-completes-prompts-and-references ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--commands
          '((:name "mcp__files__Ask_me" :usage "/mcp__files__Ask_me who [when]"
             :description "files: Asks.")))
    (let ((asked nil))
      (cl-letf (((symbol-function 'edn-bridge-mcp--complete)
                 (lambda (params)
                   (push params asked)
                   (if (plist-get params :reference)
                       '("files:file:///a" "files:file:///b")
                     '("you" "yonder")))))
        (insert "/mcp__files__A")
        (should (member "mcp__files__Ask_me"
                        (all-completions
                         "mcp__files__A"
                         (nth 2 (edn-bridge-complete-at-point)))))
        (insert "sk_me me yo")
        (pcase-let ((`(,from ,to ,table . ,_) (edn-bridge-complete-at-point)))
          (should (equal (buffer-substring-no-properties from to) "yo"))
          (should (equal (all-completions "yo" table) '("you" "yonder"))))
        (should (equal (car asked)
                       '(:prompt "mcp__files__Ask_me" :argument "when"
                         :value "yo" :before (:who "me"))))
        (edn-bridge-transcript-reset-draft)
        (insert "see @files:fi")
        (pcase-let ((`(,from ,to ,table . ,_) (edn-bridge-complete-at-point)))
          (should (equal (buffer-substring-no-properties from to) "files:fi"))
          (should (equal (all-completions "files:fi" table)
                         '("files:file:///a" "files:file:///b"))))
        (should (equal (car asked) '(:reference "files:fi")))
        ;; A file of the project asks no server.
        (setq asked nil)
        (edn-bridge-transcript-reset-draft)
        (insert "see @no-such")
        (edn-bridge-complete-at-point)
        (should-not asked)))
    (should (string-match-p edn-bridge-input--command-regexp
                            "/mcp__files__Ask_me you"))))

(ert-deftest edn-bridge-mcp-completion-waits-for-no-server ()
  (edn-bridge-test-with-chat (conn sent)
    (should-not (edn-bridge-mcp-complete-reference "files:"))
    (let ((count (length sent)))
      (should (equal (plist-get (car sent) :op) "complete_mcp"))
      ;; Asked once, however often it is tried.
      (should-not (edn-bridge-mcp-complete-reference "files:"))
      (should (= (length sent) count))
      (edn-bridge-test-answer conn sent "complete_mcp"
                              :values ["files:file:///a"] :more :false)
      (should (equal (edn-bridge-mcp-complete-reference "files:")
                     '("files:file:///a")))
      (should (= (length sent) count)))
    ;; What has changed is asked again.
    (edn-bridge-test-event conn "mcp/updated" :session-id "s" :servers [])
    (should-not (edn-bridge-mcp-complete-reference "files:"))))

;;;; With the real program and a real server

(defmacro edn-bridge-mcp-tests-with-servers (script names &rest body)
  "Run BODY in a chat whose configuration has the servers NAMES.
The program plays SCRIPT."
  (declare (indent 2) (debug t))
  `(edn-bridge-live-tests-with-program ,script
     (skip-unless (executable-find "python3"))
     (let* ((config (expand-file-name "config.edn" edn-bridge-live-tests-state))
            (edn-bridge-program-args
             (append (list "--config" config) edn-bridge-program-args)))
       (with-temp-file config
         (insert "{:mcp {")
         (dolist (name ,names)
           (insert (format "%S {:command [\"python3\" %S %S]} " name
                           (expand-file-name "scripts/mcp-server.py"
                                             edn-bridge-test-directory)
                           name)))
         (insert "}}"))
       (with-current-buffer (edn-bridge-chat-buffer)
         (edn-bridge-live-tests-wait-ready)
         ,@body))))

(defun edn-bridge-mcp-tests-shows-p (buffer text)
  "Return non-nil if BUFFER shows TEXT."
  (with-current-buffer buffer
    (string-search text (buffer-string))))

(ert-deftest edn-bridge-mcp-live-server-is-tested-and-switched ()
  (edn-bridge-mcp-tests-with-servers "hello.edn" '("probe")
    (save-window-excursion
      (let ((chat (current-buffer))
            (buffer nil))
        (edn-bridge-mcp)
        (setq buffer (current-buffer))
        (edn-bridge-test-wait
         (edn-bridge-mcp-tests-shows-p buffer "[x] probe  "))
        (goto-char (point-min))
        (edn-bridge-mcp-restart)
        (edn-bridge-test-wait
         (edn-bridge-mcp-tests-shows-p buffer "[x] probe  ready  1 tool"))
        (should (edn-bridge-mcp-tests-shows-p
                 buffer "[x] look  (only reads, it says)  Looks."))
        (goto-char (point-min))
        (search-forward "[x] look")
        (edn-bridge-mcp-toggle)
        (edn-bridge-test-wait
         (edn-bridge-mcp-tests-shows-p buffer "[ ] look"))
        ;; What is completed in the draft comes from the server.
        (with-current-buffer chat
          (edn-bridge-test-wait
           (edn-bridge-complete-command "mcp__probe__ask"))
          (should (equal (edn-bridge-mcp-reference-names) '("probe:")))
          (edn-bridge-test-wait
           (equal (edn-bridge-mcp-complete-reference "probe:")
                  '("probe:file:///a")))
          (edn-bridge-test-wait
           (equal (edn-bridge-mcp-complete-argument '("mcp__probe__ask") "y")
                  '("you" "yonder"))))
        ;; The configuration is the one that has it.
        (edn-bridge-mcp-configure)
        (let ((file (expand-file-name "config.edn" edn-bridge-live-tests-state)))
          (edn-bridge-test-wait (get-file-buffer file))
          (kill-buffer (get-file-buffer file)))
        (kill-buffer buffer)))))

;;;; An evening

(defun edn-bridge-mcp-tests-ask (text question)
  "Say TEXT in this chat, and wait for QUESTION, which is shown once."
  (goto-char (point-max))
  (insert text)
  (edn-bridge-input-send)
  (edn-bridge-mcp-tests-wait-question question))

(defun edn-bridge-mcp-tests-wait-question (question)
  "Wait until this chat shows QUESTION, and nothing else is asked."
  (edn-bridge-test-wait
   (and (= (edn-bridge-interact-pending) 1)
        (edn-bridge-mcp-tests-shows-p (current-buffer) question))))

(ert-deftest edn-bridge-mcp-evening-with-two-servers ()
  (edn-bridge-mcp-tests-with-servers "two-servers.edn" '("one" "two")
    (save-window-excursion
      (let ((chat (current-buffer)))
        ;; Tools of both, each asked about with its server.
        (edn-bridge-mcp-tests-ask "Look with both" "Allow mcp__one__look?")
        (edn-bridge-test-push "Allow once")
        (edn-bridge-mcp-tests-wait-question "Allow mcp__two__look?")
        (edn-bridge-live-tests-until-ended
         (edn-bridge-test-push "Allow once"))
        (should (edn-bridge-mcp-tests-shows-p chat "Both have looked."))
        (let ((told (edn-bridge-live-tests-told)))
          (should (string-search "one has looked" told))
          (should (string-search "two has looked" told)))
        ;; A resource of one, and a prompt of the other.
        (edn-bridge-live-tests-say "Read @one:file:///a")
        (should (edn-bridge-mcp-tests-shows-p chat "The note is read."))
        (edn-bridge-live-tests-say "/mcp__two__ask Ann")
        (should (edn-bridge-mcp-tests-shows-p chat "They were asked."))
        (should (string-search "two wants to know."
                               (edn-bridge-live-tests-told)))
        ;; One of them is switched off for this session.
        (edn-bridge-mcp)
        (let ((servers (current-buffer)))
          (edn-bridge-test-wait
           (and (edn-bridge-mcp-tests-shows-p servers "[x] one  ready  1 tool")
                (edn-bridge-mcp-tests-shows-p servers "[x] two  ready  1 tool")))
          (goto-char (point-min))
          (search-forward "[x] two")
          (edn-bridge-mcp-toggle)
          (edn-bridge-test-wait
           (edn-bridge-mcp-tests-shows-p servers "[ ] two"))
          (kill-buffer servers))
        (set-buffer chat)
        (edn-bridge-mcp-tests-ask "Look again" "Allow mcp__one__look?")
        (edn-bridge-live-tests-until-ended
         (edn-bridge-test-push "Allow once"))
        (should (edn-bridge-mcp-tests-shows-p chat "One is left."))
        (let ((told (edn-bridge-live-tests-told)))
          (should (= 3 (length (split-string told "one has looked"))))
          (should (= 2 (length (split-string told "two has looked")))))))))

(provide 'edn-bridge-mcp-tests)

;;; edn-bridge-mcp-tests.el ends here
