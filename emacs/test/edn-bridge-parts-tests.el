;;; edn-bridge-parts-tests.el --- Tests of what hangs on the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

;;;; Markdown

(defun edn-bridge-parts-tests-faces (text)
  "Return the runs of TEXT that have a face, with it."
  (with-temp-buffer
    (insert text)
    (edn-bridge-markdown-region (point-min) (point-max))
    (let ((runs nil)
          (place (point-min)))
      (while (< place (point-max))
        (let ((next (next-single-property-change place 'face nil (point-max)))
              (face (get-text-property place 'face)))
          (when face
            (push (list (buffer-substring-no-properties place next) face) runs))
          (setq place next)))
      (nreverse runs))))

(ert-deftest edn-bridge-markdown-puts-faces ()
  (pcase-dolist
      (`(,text ,runs)
       '(("plain" nil)
         ("a **b** c" (("**b**" edn-bridge-markdown-bold)))
         ("a *b* `c*d*`" (("*b*" edn-bridge-markdown-italic)
                          ("`c*d*`" edn-bridge-markdown-code)))
         ("2 * 3 * 4, snake_case_name" nil)
         ("# Title\nx" (("# Title" edn-bridge-markdown-heading)))
         ("- one\n" (("- " edn-bridge-markdown-markup)))
         ("see https://a.b/c?d." (("https://a.b/c?d." edn-bridge-markdown-link)))
         ("```\n**x**\n```\n**y**"
          (("```" edn-bridge-markdown-markup)
           ("**x**\n" edn-bridge-markdown-block)
           ("```" edn-bridge-markdown-markup)
           ("**y**" edn-bridge-markdown-bold)))
         ("````\n```\n````\n"
          (("````" edn-bridge-markdown-markup)
           ("```\n" edn-bridge-markdown-block)
           ("````" edn-bridge-markdown-markup)))))
    (ert-info (text :prefix "text: ")
      (should (equal (edn-bridge-parts-tests-faces text) runs)))))

(ert-deftest edn-bridge-markdown-looks-alike-however-it-is-split ()
  (let* ((text "# T\nSome **bold** and `code`.\n- *x*\n\n```el\n(a \"b\")\n```\nEnd **b**\n")
         (whole (edn-bridge-parts-tests-faces text)))
    (dolist (size '(1 2 3 5 8 13))
      (with-temp-buffer
        (let ((state (edn-bridge-markdown-begin (point-min)))
              (start 0))
          (while (< start (length text))
            (let ((from (point-max)))
              (goto-char from)
              (insert (substring text start (min (length text) (+ start size))))
              (edn-bridge-markdown-feed state from (point-max)))
            (setq start (+ start size)))
          (edn-bridge-markdown-finish state (point-max)))
        (let ((place (point-min))
              (runs nil))
          (while (< place (point-max))
            (let ((next (next-single-property-change place 'face nil
                                                     (point-max)))
                  (face (get-text-property place 'face)))
              (when face
                (push (list (buffer-substring-no-properties place next) face)
                      runs))
              (setq place next)))
          (should (equal (nreverse runs) whole)))))))

(ert-deftest edn-bridge-markdown-gives-code-the-faces-of-its-mode ()
  (with-temp-buffer
    (insert "```el\n(defun f () \"x\")\n```\n")
    (edn-bridge-markdown-region (point-min) (point-max))
    (edn-bridge-markdown-fontify-blocks)
    (goto-char (point-min))
    (search-forward "defun")
    (should (memq 'font-lock-keyword-face
                  (ensure-list (get-text-property (1- (point)) 'face))))
    (should-not edn-bridge-markdown--buffers)))

;;;; Tools

(defun edn-bridge-parts-tests-call (conn)
  "Have CONN receive a tool call and its result."
  (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la")
  (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la")
  (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la"
                         :content [] :is-error :false
                         :result-text "src/main.rs:12:5: found\nmore"))

(ert-deftest edn-bridge-tools-shows-a-call-in-a-line ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Look:")
    (edn-bridge-parts-tests-call conn)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Done")
    (should (equal (edn-bridge-test-transcript)
                   (concat "Assistant\nLook:\n\n▸ bash     ls -la done\n\n"
                           "Assistant\nDone")))
    (should-not (edn-bridge-tools--call-marker (edn-bridge-tools--get "c1")))))

(ert-deftest edn-bridge-tools-holds-output-back-until-it-is-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-parts-tests-call conn)
    (should-not (string-search "found" (edn-bridge-test-transcript)))
    (let ((folded (edn-bridge-test-transcript)))
      (goto-char (point-max))
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript)
                     (concat "▾ bash     ls -la done\n"
                             "src/main.rs:12:5: found\nmore\n")))
      (goto-char (point-min))
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript) folded))
      (should (= (point) (point-min))))
    (should-error (insert "x") :type 'text-read-only)))

(ert-deftest edn-bridge-tools-updates-while-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "make")
    (edn-bridge-tools-toggle)
    (dolist (text '("one\n" "one\ntwo\n"))
      (edn-bridge-test-event conn "tool/update" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "make"
                             :is-error :false :result-text text))
    (should (equal (edn-bridge-test-transcript)
                   "▾ bash     make running\none\ntwo\n"))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-tools-shows-edits-as-diffs ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                           :tool-name "edit" :call-summary "a.txt"
                           :is-error :false :result-text "ok"
                           :details '(:diff "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"))
    (goto-char (point-min))
    (search-forward "+y")
    (should (memq 'diff-added
                  (ensure-list (get-text-property (1- (point)) 'face))))))

(ert-deftest edn-bridge-tools-follows-places ()
  (edn-bridge-test-with-chat (conn _sent)
    (let* ((folder (make-temp-file "edn-bridge" t))
           (default-directory (file-name-as-directory folder)))
      (unwind-protect
          (progn
            (make-directory "src")
            (write-region "1\n2\n3\n" nil "src/main.rs" nil 'quiet)
            (edn-bridge-test-event
             conn "tool/result" :session-id "s1" :tool-id "c1" :tool-name "bash"
             :call-summary "x" :is-error :false
             :result-text "see (src/main.rs:3) there\n")
            (edn-bridge-tools-toggle)
            (goto-char (point-min))
            (search-forward "main")
            (save-window-excursion
              (edn-bridge-tools-follow)
              (should (equal (line-number-at-pos) 3))
              (should (looking-at-p "3"))
              (kill-buffer)))
        (delete-directory folder t)))))

(ert-deftest edn-bridge-tools-shows-calls-of-the-journal ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages
     [(:id "e1" :role "assistant"
           :content [(:type :tool-call :id "c1" :name "bash"
                            :arguments (:command "ls -la"))
                     (:type :tool-call :id "c2" :name "read"
                            :arguments (:path "a.txt"))])
      (:id "e2" :role "tool" :tool-call-id "c1" :tool-name "bash"
           :is-error :false :content [(:type :text :text "out 1")])
      (:id "e3" :role "tool" :tool-call-id "c2" :tool-name "read"
           :is-error t :content [(:type :text :text "out 2")])])
    (should (equal (edn-bridge-test-transcript)
                   "▸ bash     ls -la done\n▸ read     a.txt failed\n"))
    (goto-char (point-min))
    (edn-bridge-tools-toggle)
    (should (string-match-p "out 1" (edn-bridge-test-transcript)))))

;;;; Questions

(defun edn-bridge-parts-tests-ask (conn kind payload &rest more)
  "Have CONN receive a question of KIND with PAYLOAD and MORE."
  (apply #'edn-bridge-test-event conn "interaction/requested"
         :interaction-id "i1" :kind kind :correlation-id "t1"
         :session-id "s1" :payload payload more))

(defun edn-bridge-parts-tests-push (label)
  "Push the button whose label begins with LABEL."
  (goto-char (point-min))
  (search-forward (concat "[" label))
  (push-button (1- (point))))

(defconst edn-bridge-parts-tests-questions
  '(("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow once" (:outcome "approve" :scope "once"))
    ("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow for this" (:outcome "approve" :scope "session"))
    ("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow always" (:outcome "approve" :scope "rule" :rule "bash rm"))
    ("confirm" (:prompt "Sure?" :default t :danger t) "Yes" (:ok t))
    ("confirm" (:prompt "Sure?" :default :false) "No" (:ok :false))
    ("select" (:prompt "Which?" :options [(:label "A" :value 1)
                                          (:label "B" :value 2)])
     "B" (:index 1))
    ("auth.device-code" (:provider "p" :url "https://a" :code "XY"
                                   :expires-at "later")
     "Done" (:done t))
    ("grant-stage-tool" (:stage-execution-id "x" :attempt 0 :proposal-id "p"
                                             :tool "bash" :args-digest "d"
                                             :args-summary "ls")
     "Grant" (:outcome "approve"))
    ("grant-stage-tool" (:stage-execution-id "x" :attempt 0 :proposal-id "p"
                                             :tool "bash" :args-digest "d"
                                             :args-summary "ls")
     "Later" (:outcome "defer"))
    ("approve-subagent-envelope" (:subagent-id "sub" :depth 1
                                               :prompt-summary "Do it")
     "Start" (:outcome "approve")))
  "Kinds of questions, payloads, buttons and the values that they answer.")

(ert-deftest edn-bridge-interact-answers-by-buttons ()
  (pcase-dolist (`(,kind ,payload ,button ,value)
                 edn-bridge-parts-tests-questions)
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-parts-tests-ask conn kind payload)
      (should (= 1 (edn-bridge-interact-pending)))
      (edn-bridge-parts-tests-push button)
      (ert-info ((format "%s: %s" kind button))
        (should (equal (plist-get (car sent) :op) "interaction_respond"))
        (should (equal (plist-get (car sent) :params)
                       (list :interaction-id "i1" :status "accepted"
                             :value value))))
      (edn-bridge-test-event conn "interaction/answered"
                             :interaction-id "i1" :correlation-id "t1"
                             :status "accepted" :ext-id "emacs")
      (should (zerop (edn-bridge-interact-pending)))
      (should-not (string-match-p "\\[Cancel\\]" (edn-bridge-test-transcript)))
      (should (string-match-p "→ accepted" (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-interact-answers-by-the-minibuffer-once-asked-to ()
  (pcase-dolist
      (`(,kind ,payload ,button ,typed ,params)
       '(("approve" (:tool "bash" :command "rm x") "Reject" "too risky"
          (:value (:outcome "deny") :note "too risky"))
         ("ask" (:prompt "Name?") "Answer]" "Ada" (:value (:text "Ada")))
         ("auth.password" (:prompt "Key") "Enter" "s3cret"
          (:value (:secret "s3cret")))))
    (edn-bridge-test-with-chat (conn sent)
      (let ((given nil))
        (cl-letf (((symbol-function 'read-string) (lambda (&rest _) typed))
                  ((symbol-function 'read-passwd)
                   (lambda (&rest _) (copy-sequence typed)))
                  ;; The secret is cleared once it is sent.
                  ((symbol-function 'edn-bridge-rpc--send)
                   (lambda (_conn frame)
                     (setq given (edn-bridge-edn-print-string
                                  (plist-get frame :params))))))
          (edn-bridge-parts-tests-ask conn kind payload)
          (should-not given)
          (edn-bridge-parts-tests-push button))
        (ignore sent)
        (should (equal given
                       (edn-bridge-edn-print-string
                        (append '(:interaction-id "i1" :status "accepted")
                                params))))))))

(ert-deftest edn-bridge-interact-says-when-another-answered-first ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-parts-tests-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-interact-accept)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id)
                :op "interaction_respond"
                :error-code "request/interaction-already-answered"
                :error-message "Answered"))
    (should (string-match-p "answered elsewhere" (edn-bridge-test-transcript)))
    (should (zerop (edn-bridge-interact-pending)))
    (should-error (edn-bridge-interact-accept) :type 'user-error)))

(ert-deftest edn-bridge-interact-shows-who-asks-and-what-it-does-not-know ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-parts-tests-ask conn "kind.of-the-future" '(:fact "one")
                                :subagent-id "scout")
    (should (string-match-p "\\[subagent scout\\]" (edn-bridge-test-transcript)))
    (should (string-match-p "fact one" (edn-bridge-test-transcript)))
    (edn-bridge-parts-tests-push "Cancel")
    (should (equal (plist-get (car sent) :params)
                   '(:interaction-id "i1" :status "cancelled")))))

(ert-deftest edn-bridge-interact-keeps-questions-when-the-transcript-is-rebuilt ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-parts-tests-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-test-event conn "session/rehydrated" :session-id "s1"
                           :messages [])
    (should (string-match-p "Sure\\?\n.*\\[No" (edn-bridge-test-transcript)))
    (should (= 1 (edn-bridge-interact-pending)))))

(ert-deftest edn-bridge-interact-answers-dialogs ()
  (pcase-dolist
      (`(,data ,button ,result)
       '(((:kind "confirm" :title "Sure?") "Yes" t)
         ((:kind :confirm :title "Sure?") "No" :false)
         ((:kind "select" :title "Which?"
                 :options [(:value "a" :label "A") (:value "b" :label "B")])
          "B" "b")))
    (edn-bridge-test-with-chat (conn sent)
      (apply #'edn-bridge-test-event conn "ui/dialog-requested"
             :dialog-id "d1" data)
      (edn-bridge-parts-tests-push button)
      (should (equal (plist-get (car sent) :op) "resolve_dialog"))
      (should (equal (plist-get (car sent) :params)
                     (list :dialog-id "d1" :result result))))))

;;;; Actions

(ert-deftest edn-bridge-actions-wait-behind-a-button-and-report ()
  (let ((data '(:request-id "r1"
                :ui/action (:ui/action-id "a" :ui/action-kind :select
                            :ui/action-name :select-session
                            :ui/prompt "Select a live session"
                            :ui/order :preserve
                            :ui/items
                            [(:ui.item/id "1" :ui.item/label "B"
                              :ui.item/value (:action/kind :switch-session
                                              :action/session-id "s2"))
                             (:ui.item/id "2" :ui.item/label "A"
                              :ui.item/value nil)]))))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-actions--offer conn data)
      (should-not sent)
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (_prompt collection &rest _)
                   (car (all-completions "" collection)))))
        (edn-bridge-parts-tests-push "Choose"))
      (should (equal (plist-get (car sent) :params)
                     '(:request-id "r1" :action-name "select-session"
                       :status "submitted"
                       :value (:action/kind :switch-session
                               :action/session-id "s2")))))
    (edn-bridge-test-with-chat (conn sent)
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (&rest _) (signal 'quit nil))))
        (edn-bridge-actions--choose conn data))
      (should (equal (plist-get (plist-get (car sent) :params) :status)
                     "cancelled")))))

;;;; Completion

(defun edn-bridge-parts-tests-complete (draft)
  "Return what completes DRAFT at its end."
  (edn-bridge-transcript-set-draft draft)
  (pcase (edn-bridge-complete-at-point)
    (`(,start ,end ,table . ,_)
     (all-completions (buffer-substring-no-properties start end) table))))

(ert-deftest edn-bridge-complete-completes-in-the-draft ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--files
          (cons (float-time) '("src/main.rs" "src/lib.rs" "README.md"))
          edn-bridge-complete--models '((:provider "embedded" :id "tiny")))
    (should (equal (edn-bridge-parts-tests-complete "/thi") '("thinking")))
    (should (equal (edn-bridge-parts-tests-complete "/thinking m")
                   '("minimal" "medium")))
    (should (equal (edn-bridge-parts-tests-complete "/model e") '("embedded")))
    (should (equal (edn-bridge-parts-tests-complete "look at @src/")
                   '("src/main.rs" "src/lib.rs")))
    (should (equal (edn-bridge-parts-tests-complete "@REA") '("README.md")))
    (should-not (edn-bridge-parts-tests-complete "mail me a@REA"))
    (should-not (edn-bridge-parts-tests-complete "plain text"))))

(ert-deftest edn-bridge-complete-tells-things-of-one-name-apart ()
  (cl-letf (((symbol-function 'completing-read)
             (lambda (_prompt collection &rest _)
               (should (equal (all-completions "" collection)
                              '("x" "x <2>" "a")))
               "x <2>")))
    (should (equal (edn-bridge-complete-choose
                    "P: " '((1 "x") (2 "x") (3 "a")) #'cadr)
                   '(2 "x")))))

;;;; Log

(ert-deftest edn-bridge-log-masks-secrets-before-it-keeps-them ()
  (pcase-dolist
      (`(,text ,masked)
       '(("{:secret \"s3cret\"}" "{:secret \"•••\"}")
         ("{:value {:secret \"a\\\"b\"} :x 1}" "{:value {:secret \"•••\"} :x 1}")
         ("{:api-key \"k\" :access-token \"t\"}"
          "{:api-key \"•••\" :access-token \"•••\"}")
         ("{:input \"code\"}" "{:input \"•••\"}")
         ("{:usage {:input 12}}" "{:usage {:input 12}}")
         ("{:secret \"cut of" "{:secret \"•••\"")
         ("{:text \"plain\"}" "{:text \"plain\"}")))
    (should (equal (edn-bridge-log-mask text) masked)))
  (edn-bridge-test-with-connection (conn _sent _events)
    (edn-bridge-log--keep conn 'out "{:secret \"s3cret\"}")
    (edn-bridge-log--keep conn 'in (make-string 100000 ?x))
    (let ((kept (format "%S" (ring-elements
                              (gethash conn edn-bridge-log--rings)))))
      (should-not (string-match-p "s3cret" kept))
      (should (< (length kept) 5000)))))

;;;; Asking from other buffers

(ert-deftest edn-bridge-ask-brings-the-region-to-the-chat ()
  (edn-bridge-test-with-chat (_conn sent)
    (let* ((chat (current-buffer))
           (edn-bridge-ask-open-function (lambda () chat)))
      (with-temp-buffer
        (rename-buffer "notes" t)
        (insert "one\ntwo ```\nthree\n")
        (save-window-excursion
          (edn-bridge-ask-region 5 13 "What is this?")
          (edn-bridge-add-region 1 5)))
      (should (string-match-p
               "\\`What is this\\?\n\nnotes.*:2\n````fundamental\ntwo ```\n````\\'"
               (plist-get (plist-get (car sent) :params) :message)))
      (should (string-match-p "\\`notes.*:1\n```fundamental\none\n```\n\\'"
                              (edn-bridge-transcript-draft))))))

(ert-deftest edn-bridge-ask-sends-images-once ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((inhibit-message t))
      (edn-bridge-ask-attach "image/png" "\211PNG"))
    (edn-bridge-transcript-set-draft "Look")
    (edn-bridge-input-send)
    (should (equal (plist-get (plist-get (car sent) :params) :images)
                   [(:mime-type "image/png" :data "iVBORw==")]))
    (edn-bridge-transcript-set-draft "And")
    (edn-bridge-input-send)
    (should-not (plist-get (plist-get (car sent) :params) :images))))

;;;; Sessions as a tree

(ert-deftest edn-bridge-tree-puts-forks-under-their-source ()
  (with-temp-buffer
    (edn-bridge-tree-mode)
    (edn-bridge-tree--show
     '((:id "c" :display-name "C" :parent-session-id "a")
       (:id "a" :display-name "A")
       (:id "b" :display-name "B" :parent-session-id "gone" :is-streaming t)
       (:id "d" :display-name "D" :parent-session-id "c"))
     "b")
    (should (equal (split-string (buffer-string) "\n" t "[ ]+\\'")
                   '("○ A" "  ○ C" "    ○ D" "● B  running")))))

;;;; Footer

(ert-deftest edn-bridge-footer-shows-lines-and-statuses ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "footer/updated" :session-id "s1"
                           :path-line "~/x (main)" :stats-line "↑1 ↓2")
    (edn-bridge-test-event conn "ui/widgets-updated"
                           :widgets [(:widget-id "w" :content-lines ["stage 2/3"])
                                     (:widget-id "session-tree"
                                      :content-lines ["no"])])
    (should (string-match-p
             "\nstage 2/3\n~/x (main)\n↑1 ↓2\\'"
             (overlay-get edn-bridge-transcript--footer 'before-string)))))

(provide 'edn-bridge-parts-tests)

;;; edn-bridge-parts-tests.el ends here
